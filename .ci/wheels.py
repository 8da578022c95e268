"""Build and check the wheels of all distributions, and install the core and the plugins from them.

Usage: python .ci/wheels.py FOLDER [NAME ...], in the environment to install into. NAME adds a distribution of contrib.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
CORE_EXTRAS = "[arrow,cli,testing,yaml]"


def main(out: Path, *others: str) -> None:
    """Build all wheels into `out`, check them, and install the core, the plugins and `others`."""
    core = build(ROOT, out)
    plugins = [build(folder, out) for folder in sorted(ROOT.glob("plugins/mqplug-*"))]
    contrib = [build(folder, out) for folder in sorted(ROOT.glob("contrib/mqplug-*"))]
    for wheel in [core, *plugins, *contrib]:
        check_packages(wheel)
        check_description(wheel)
    check_pages(core)
    check_alone(core, out / "bare")
    wanted = [wheel for wheel in contrib if wheel.name.partition("-")[0].replace("_", "-") in others]
    uv("pip", "install", "--python", sys.executable, f"{core}{CORE_EXTRAS}", *plugins, *wanted)


def build(folder: Path, out: Path) -> Path:
    """Build one wheel through its sdist, so that an old build/ in the tree does not leak into it."""
    before = set(out.glob("*.whl"))
    uv("build", "--out-dir", out, folder)
    (wheel,) = set(out.glob("*.whl")) - before
    return wheel


def check_packages(wheel: Path) -> None:
    """Check that a wheel holds only typed packages of mqplug: no tests, docs or leftovers."""
    names = ZipFile(wheel).namelist()
    foreign = [name for name in names if "mqplug" not in name.partition("/")[0]]
    if foreign or f"{wheel.name.partition('-')[0]}/py.typed" not in names:
        sys.exit(f"{wheel.name}: {f'holds foreign files: {foreign}' if foreign else 'lacks py.typed'}")


def check_description(wheel: Path) -> None:
    """Check that the description is Markdown without relative links, which are broken on an index."""
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    broken = re.findall(r"\]\((?!https?://|#)[^)]*\)", text.partition("\n\n")[2])
    if broken or "Description-Content-Type: text/markdown" not in text:
        sys.exit(f"{wheel.name}: the description has {f'relative links: {broken}' if broken else 'no Markdown type'}")


def check_pages(core: Path) -> None:
    """Check that the core ships each page of its documentation, for `mqplug docs`."""
    held = {Path(name).stem.lower() for name in ZipFile(core).namelist() if "/share/doc/mqplug/" in name}
    missing = {page.stem for page in ROOT.glob("docs/*.md")} - held
    if missing:
        sys.exit(f"{core.name}: lacks the pages {sorted(missing)}")


def check_alone(core: Path, folder: Path) -> None:
    """Check that the core works with its required packages alone."""
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder, core)
    subprocess.run([folder / "bin/python", ROOT / ".ci/smoke.py"], check=True)


def uv(*arguments: object) -> None:
    """Run uv quietly. Its failure ends the run."""
    subprocess.run(["uv", "--quiet", *map(str, arguments)], check=True)


main(Path(sys.argv[1]), *sys.argv[2:])
