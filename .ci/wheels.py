"""Build and check the wheels of all distributions, and install the core, its tools and the plugins from them.

Usage: python .ci/wheels.py FOLDER [NAME ...], in the environment to install into. NAME adds a distribution of contrib.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
CORE_EXTRAS = "[arrow,yaml]"
TOOLS = {"mqplug_cli": "[top]", "mqplug_testing": ""}  # with their extras
C_LIBRARIES = {"libc.so.6", "libdl.so.2", "libpthread.so.0"}  # the others are part of the first since glibc 2.34


def main(out: Path, *others: str) -> None:
    """Build all wheels into `out`, check them, and install the core, its tools, the plugins and `others`."""
    core = build(ROOT, out)
    folders = sorted(ROOT.glob("plugins/mqplug-*"))
    if not compiler_is_there():
        folders = [folder for folder in folders if not folder.name.endswith("-native")]
    plugins = [build(folder, out) for folder in folders]
    contrib = [build(folder, out) for folder in sorted(ROOT.glob("contrib/mqplug-*"))]
    for wheel in plugins:
        if "_native-" in wheel.name:
            check_compiled(wheel)
    check_pages(core)
    check_alone(core, out / "bare")
    extras = TOOLS | {name.replace("-", "_"): "" for name in others}
    named = {wheel.name.partition("-")[0]: wheel for wheel in contrib}
    wanted = [f"{named[name]}{extra}" for name, extra in extras.items()]
    uv("pip", "install", "--python", sys.executable, f"{core}{CORE_EXTRAS}", *plugins, *wanted)


def build(folder: Path, out: Path, *options: str, **environment: str) -> Path:
    """Build one wheel through its sdist, so that an old build/ in the tree does not leak into it, and check it."""
    before = set(out.glob("*.whl"))
    uv("build", "--out-dir", out, *options, folder, **environment)
    (wheel,) = set(out.glob("*.whl")) - before
    check_packages(wheel)
    check_description(wheel)
    return wheel


def compiler_is_there() -> bool:
    """Return whether a C compiler is installed. If not, report that no compiled part is built, or exit in CI."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler):
        return True
    reason = f"no compiled part is built: the C compiler {compiler!r} was not found"
    if os.environ.get("CI", "").lower() == "true":
        sys.exit(reason)
    print(reason, file=sys.stderr)
    return False


def check_packages(wheel: Path) -> None:
    """Check that a wheel contains only typed packages of mqplug: no tests, docs or leftovers."""
    names = ZipFile(wheel).namelist()
    foreign = [name for name in names if "mqplug" not in name.partition("/")[0]]
    if foreign or f"{wheel.name.partition('-')[0]}/py.typed" not in names:
        sys.exit(f"{wheel.name}: {f'contains foreign files: {foreign}' if foreign else 'lacks py.typed'}")


def check_description(wheel: Path) -> None:
    """Check that the description is Markdown without relative links, which are broken on an index."""
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    broken = re.findall(r"\]\((?!https?://|#)[^)]*\)", text.partition("\n\n")[2])
    if broken or "Description-Content-Type: text/markdown" not in text:
        sys.exit(f"{wheel.name}: the description has {f'relative links: {broken}' if broken else 'no Markdown type'}")


def check_compiled(wheel: Path, newest_glibc: str = "2.999", *, sanitized: bool = False) -> None:
    """Check that a compiled part is for every Python from 3.11, and needs only the C library, no newer than this."""
    with TemporaryDirectory() as folder:
        names = [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]
        if "-cp311-abi3-" not in wheel.name or names != [f"{wheel.name.partition('-')[0]}/_native.abi3.so"]:
            sys.exit(f"{wheel.name}: not one module of the stable ABI, but {names}")
        library = ZipFile(wheel).extract(names[0], folder)
        found = subprocess.run(["readelf", "-dVW", library], capture_output=True, text=True, check=True).stdout
    foreign = set(re.findall(r"NEEDED.*\[(.*)\]", found)) - C_LIBRARIES
    newer = {each for each in re.findall(r"GLIBC_([\d.]+)", found) if version(each) > version(newest_glibc)}
    if newer or (foreign and not sanitized):
        sys.exit(f"{wheel.name}: needs {', '.join([*foreign, *(f'glibc {each}' for each in newer)])}")


def version(text: str) -> list[int]:
    """Return the numbers of a version, to compare them."""
    return [int(part) for part in text.split(".")]


def check_pages(core: Path) -> None:
    """Check that the core ships each page of its documentation, for `mqplug docs`."""
    held = {Path(name).stem.lower() for name in ZipFile(core).namelist() if "/share/doc/mqplug/" in name}
    missing = {page.stem for page in ROOT.glob("docs/*.md")} - held
    if missing:
        sys.exit(f"{core.name}: lacks the pages {sorted(missing)}")


def check_alone(core: Path, folder: Path) -> None:
    """Check that the core works with only its required packages."""
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder, core)
    subprocess.run([folder / "bin/python", ROOT / ".ci/smoke.py"], check=True)


def uv(*arguments: object, **environment: str) -> None:
    """Run uv quietly, with these additional variables. Its failure ends the run."""
    subprocess.run(["uv", "--quiet", *map(str, arguments)], check=True, env={**os.environ, **environment})


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
