"""Makes a zip of mqplug for executors that lack it: ``python -m mqplug_spark.bundle OUT.zip [DISTRIBUTION ...]``.

Executors cannot import a wheel that ``addArtifacts`` or ``addPyFile`` brings, but a zip. This one holds mqplug,
mqplug-spark, the named plugins (all that are installed, if none is named) and the pure Python that these require. What
is compiled cannot be imported from a zip: it is left out and named, to be installed on the executors.
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
"""What Spark's own Python needs to run any data source, and what those require."""

BACKENDS_GROUP: Final = "mqplug.backends"
NATIVE_EXTRA: Final = 'extra == "native"'
LEFT_OUT: Final = frozenset({"__pycache__", "tests"})  # folders of a package
METADATA_FILES: Final = ("METADATA", "entry_points.txt")  # what importlib.metadata reads: mqplug finds plugins by it
_COMPILED: Final = frozenset({".so", ".pyd", ".dylib"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)  # of a zip: the same contents are the same file


@attrs.frozen
class Bundle:
    """What went into a zip, and what it leaves to the executors, as requirements for pip."""

    held: tuple[str, ...]
    left: tuple[str, ...]


def write_bundle(path: Path, plugins: Iterable[str] = ()) -> Bundle:
    """Write the zip. Without names, all installed plugins go into it."""
    held: dict[str, Distribution] = {}
    left: dict[str, str] = {}
    waiting = [_name(each) for each in ("mqplug-spark", "mqplug", *(plugins or _installed_plugins()))]
    for name in waiting:  # grows as we go
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
    """Return the distributions that offer a backend, whether from this repository or from elsewhere."""
    return [each.dist.name for each in entry_points(group=BACKENDS_GROUP) if each.dist is not None]


def _files(found: Distribution) -> dict[str, Path]:
    """Return the files of a distribution's modules by their paths inside the zip, also if it is installed editable."""
    named = (found.read_text("top_level.txt") or "").split()
    modules = named or [each.parts[0].removesuffix(".py") for each in found.files or () if each.suffix == ".py"]
    return {inside: path for module in dict.fromkeys(modules) for inside, path in _files_of_module(module)}


def _files_of_module(module: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(module)
    if spec is None:  # the name of something else
        return
    for folder in spec.submodule_search_locations or ():
        for path in Path(folder).rglob("*"):
            if path.is_file() and not LEFT_OUT.intersection(path.relative_to(folder).parts):
                yield str(Path(module, path.relative_to(folder))), path
    if not spec.submodule_search_locations and spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


def _requirements(found: Distribution) -> Iterator[str]:
    """Yield what a distribution requires. Of its extras, only the compiled part counts, which it uses if installed."""
    for line in found.requires or ():
        name = _NAME.match(line)
        if name is not None and ("extra ==" not in line or NATIVE_EXTRA in line):
            yield _name(name[0])


def _is_installed(name: str) -> bool:
    """Return whether a requirement is here: those of other Pythons and systems are not."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _name(written: str) -> str:
    """Return the normal form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", written).lower()


def main(arguments: list[str]) -> int:
    """Write the zip that the arguments name, and say what it holds. Return the exit code."""
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
        sys.stdout.write(f"On every executor, install what is compiled: pip install {' '.join(made.left)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
