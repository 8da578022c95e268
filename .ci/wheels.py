"""Build every distribution as users get it, look into the wheels, and install core and plugins from them.

Usage: python .ci/wheels.py FOLDER [NAME ...], in the environment that shall receive them, and these of contrib.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "[arrow,cli,testing,yaml]"


def main(out: Path, *others: str) -> None:
    """Build into `out`, check, install."""
    core = build(ROOT, out)
    plugins = [build(folder, out) for folder in sorted(ROOT.glob("plugins/mqplug-*"))]
    contrib = [build(folder, out) for folder in sorted(ROOT.glob("contrib/mqplug-*"))]
    for wheel in [core, *plugins, *contrib]:
        check(wheel)
        check_description(wheel)
    check_pages(core)
    smoke(core, out / "bare")
    wanted = [wheel for wheel in contrib if wheel.name.partition("-")[0].replace("_", "-") in others]
    uv("pip", "install", "--python", sys.executable, f"{core}{EXTRAS}", *plugins, *wanted)


def build(folder: Path, out: Path) -> Path:
    """Build one wheel through its sdist: an old build/ in the tree must not leak into it."""
    before = set(out.glob("*.whl"))
    uv("build", "--out-dir", out, folder)
    (wheel,) = set(out.glob("*.whl")) - before
    return wheel


def check(wheel: Path) -> None:
    """A wheel holds typed packages of ours, and no tests, docs or leftovers beside them."""
    names = ZipFile(wheel).namelist()
    strangers = [name for name in names if "mqplug" not in name.partition("/")[0]]
    if strangers or f"{wheel.name.partition('-')[0]}/py.typed" not in names:
        sys.exit(f"{wheel.name}: holds {strangers or 'no py.typed'}")


def check_description(wheel: Path) -> None:
    """What an index shows has no link that leads to a file beside it: there is none."""
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    broken = re.findall(r"\]\((?!https?://|#)[^)]*\)", text.partition("\n\n")[2])
    if broken or "Description-Content-Type: text/markdown" not in text:
        sys.exit(f"{wheel.name}: its description has {broken or 'no type'}")


def check_pages(core: Path) -> None:
    """The core brings each page of its documentation, for `mqplug docs`."""
    held = {Path(name).stem.lower() for name in ZipFile(core).namelist() if "/share/doc/mqplug/" in name}
    missing = {page.stem for page in ROOT.glob("docs/*.md")} - held
    if missing:
        sys.exit(f"{core.name}: lacks the pages {sorted(missing)}")


def smoke(core: Path, folder: Path) -> None:
    """Alone, with what it requires and nothing else, the core works."""
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder, core)
    subprocess.run([folder / "bin/python", ROOT / ".ci/smoke.py"], check=True)


def uv(*arguments: object) -> None:
    """Run uv quietly; its failure ends the run."""
    subprocess.run(["uv", "--quiet", *map(str, arguments)], check=True)


main(Path(sys.argv[1]), *sys.argv[2:])
