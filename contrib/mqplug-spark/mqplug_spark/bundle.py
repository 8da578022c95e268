"""A zip of mqplug for executors that lack it: ``python -m mqplug_spark.bundle OUT.zip [DISTRIBUTION ...]``.

Executors can import a zip from ``addArtifacts`` or ``addPyFile``, but not a wheel. This one holds mqplug, mqplug-spark,
the named plugins (by default all installed ones) and their requirements in pure Python. Compiled packages cannot be
imported from a zip: the command lists them, so that you can install them on the executors.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import attrs

ON_EXECUTORS: Final = frozenset({"pyspark", "pyarrow"})
"""Packages that executors need for any data source: neither they nor their requirements are bundled."""

BACKENDS_GROUP: Final = "mqplug.backends"
NATIVE_EXTRA: Final = 'extra == "native"'
LEFT_OUT: Final = frozenset({"__pycache__", "tests"})  # folders in a package
METADATA_FILES: Final = ("METADATA", "entry_points.txt")  # read by importlib.metadata, with which mqplug finds plugins
_COMPILED: Final = frozenset({".so", ".pyd", ".dylib"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip; fixed, so that equal contents make equal files


@attrs.frozen
class Bundle:
    """The contents of a zip, and the packages left to the executors, as requirements for pip."""

    held: tuple[str, ...]
    left: tuple[str, ...]


def write_bundle(path: Path, plugins: Iterable[str] = ()) -> Bundle:
    """Write the zip, with all installed plugins if none are named."""
    held: dict[str, Distribution] = {}
    left: dict[str, str] = {}
    waiting = [_name(each) for each in ("mqplug-spark", "mqplug", *(plugins or _installed_plugins()))]
    for name in waiting:  # grows during the loop
        if name in held or name in left or name in ON_EXECUTORS:
            continue
        found = distribution(name)
        if any(each.suffix in _COMPILED for each in _files(found).values()):
            left[name] = f"{name}=={found.version}"
            continue
        held[name] = found
        waiting += [each for each in _requirements(found) if _is_installed(each)]
    _write(path, held)
    versions = tuple(f"{name} {found.version}" for name, found in sorted(held.items()))
    return Bundle(versions, tuple(sorted(left.values())))


def _write(path: Path, held: Mapping[str, Distribution]) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, found in sorted(held.items()):
            for inside, file in sorted(_files(found).items()):
                archive.writestr(ZipInfo(inside, _FIRST_DAY), file.read_bytes(), ZIP_DEFLATED)
            folder = f"{name.replace('-', '_')}-{found.version}.dist-info"
            for metadata in METADATA_FILES:
                text = found.read_text(metadata)
                if text is not None:
                    archive.writestr(ZipInfo(f"{folder}/{metadata}", _FIRST_DAY), text, ZIP_DEFLATED)


def _installed_plugins() -> list[str]:
    """Return the installed distributions that provide a backend, from this repository or elsewhere."""
    return [each.dist.name for each in entry_points(group=BACKENDS_GROUP) if each.dist is not None]


def _files(found: Distribution) -> dict[str, Path]:
    """Return the files of a distribution's modules by their paths inside the zip, even of an editable install."""
    named = (found.read_text("top_level.txt") or "").split()
    modules = named or [each.parts[0].removesuffix(".py") for each in found.files or () if each.suffix == ".py"]
    return {inside: path for module in dict.fromkeys(modules) for inside, path in _files_of_module(module)}


def _files_of_module(module: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(module)
    if spec is None:  # not a module
        return
    for folder in spec.submodule_search_locations or ():
        for path in Path(folder).rglob("*"):
            if path.is_file() and not LEFT_OUT.intersection(path.relative_to(folder).parts):
                yield str(Path(module, path.relative_to(folder))), path
    if not spec.submodule_search_locations and spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


def _requirements(found: Distribution) -> Iterator[str]:
    """Yield the requirements of a distribution. Of its extras, only the compiled part counts: it is used if present."""
    for line in found.requires or ():
        name = _NAME.match(line)
        if name is not None and ("extra ==" not in line or NATIVE_EXTRA in line):
            yield _name(name[0])


def _is_installed(name: str) -> bool:
    """Return whether a requirement is installed. Those for other Pythons and systems are not."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _name(written: str) -> str:
    """Normalize a distribution's name."""
    return re.sub(r"[-_.]+", "-", written).lower()


def main(arguments: list[str]) -> int:
    """Write the zip that the arguments name, and list its contents. Return the exit code."""
    if not arguments or not arguments[0].endswith(".zip"):
        sys.stderr.write("usage: python -m mqplug_spark.bundle OUT.zip [DISTRIBUTION ...]\n")
        return 2
    try:
        made = write_bundle(Path(arguments[0]), arguments[1:])
    except PackageNotFoundError as error:
        sys.stderr.write(f"{error.name} is not installed here: install it, or name another plugin\n")
        return 1
    sys.stdout.write(f"{arguments[0]} holds {', '.join(made.held)}\n")
    if made.left:
        sys.stdout.write(f"Install the compiled packages on every executor: pip install {' '.join(made.left)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
