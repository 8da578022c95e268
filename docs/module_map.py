"""The map of all modules: path and first line of each, floor by floor. The build of the docs appends it to the page of
the architecture; `python docs/module_map.py` prints it.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def sections() -> Iterator[str]:
    """Return the lines of the map: a section for each distribution, a table for each of its folders."""
    for folder in distributions():
        yield f"## {'mqplug' if folder == ROOT else folder.name}"
        for package in sorted(folder.glob("*mqplug*/__init__.py")):
            yield from tables(package.parent, floors(folder / "pyproject.toml"))


def distributions() -> list[Path]:
    """Return the folder of each distribution: the core first, then the plugins, then contrib."""
    return [ROOT, *sorted(ROOT.glob("plugins/mqplug-*")), *sorted(ROOT.glob("contrib/mqplug-*"))]


def floors(settings: Path) -> list[str]:
    """Return the modules that the layers contracts of a distribution name, from top to bottom."""
    contracts = tomllib.loads(settings.read_text())["tool"].get("importlinter", {"contracts": []})["contracts"]
    named = [(contract.get("containers", [""])[0], contract.get("layers", [])) for contract in contracts]
    return [
        f"{container}.{module.strip()}".strip(".")
        for container, layers in named
        for layer in layers
        for module in layer.replace(":", "|").split("|")
    ]


def tables(package: Path, order: list[str]) -> Iterator[str]:
    """Return the tables of a package: its own modules, then its folders in the order of the floors."""
    name = ".".join(package.relative_to(top(package)).parts)
    modules = [path for path in package.glob("*.py") if path.stem != "__init__"]
    yield from ["", f"**`{name}`** {first_line(package / '__init__.py')}"]
    if modules:
        yield from ["", "| module | |", "|---|---|"]
        yield from (f"| `{path.stem}` | {first_line(path)} |" for path in arranged(modules, name, order))
    folders = [path.parent for path in package.glob("*/__init__.py")]
    for folder in arranged(folders, name, order):
        yield from tables(folder, order)


def top(package: Path) -> Path:
    """Return the folder that holds a package's outermost package."""
    while (package / "__init__.py").exists():
        package = package.parent
    return package


def arranged(paths: list[Path], inside: str, order: list[str]) -> list[Path]:
    """Return modules in the order of the floors, from top to bottom. Others follow by name."""
    rank = {module: number for number, module in reversed(list(enumerate(order)))}
    return sorted(paths, key=lambda path: (rank.get(f"{inside}.{path.stem}", len(order)), path.name))


def first_line(path: Path) -> str:
    """Return the first paragraph of a module's docstring, in one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").replace("|", "\\|").rstrip(":")


if __name__ == "__main__":
    sys.stdout.write("\n".join(sections()) + "\n")
