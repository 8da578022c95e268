"""The model beside the rules: for each section of the rules, the sentences that the model keeps, and where.

The build of the docs appends it to its page; `python docs/modelled_rules.py` prints it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from mqplug_testing.model import RULES

ROOT = Path(__file__).parents[1]
KIT = ROOT / "contrib/mqplug-testing/mqplug_testing"
FOLDERS = (KIT / "model", KIT / "programs" / "_steps")
PAGE = ROOT / "docs/rules.md"
DEFINITIONS = ast.FunctionDef | ast.ClassDef


NOT_MODELLED = {
    "Handlers": "the core runs handlers, in the same way on every backend; programs have one thread",
    "Threads and processes": "programs make one call after the other",
    "Arrow": "programs send records, not columns",
    "Topics by pattern": "when a new topic joins depends on time",
    "Where backends differ": "the model allows what any backend does",
}
"""The sections of which the model keeps no sentence, and why."""


def sections() -> Iterator[str]:
    """Yield the lines of the page: a table for each section of the rules."""
    found = places()
    for title, names in by_section().items():
        yield from ["", f"## {title}", ""]
        if not names:
            yield f"Not modelled: {NOT_MODELLED[title]}."
            continue
        yield from ["| rule | sentence | where the model keeps it |", "|---|---|---|"]
        for name in names:
            yield f"| `{name}` | {RULES[name]} | {', '.join(found[name])} |"


def by_section() -> dict[str, list[str]]:
    """Return the names of the modelled rules by the title of the section whose text has their sentence."""
    found: dict[str, list[str]] = {}
    for title, text in _texts():
        found.setdefault(title, [])
        found[title] += [name for name, sentence in RULES.items() if " ".join(sentence.split()) in text]
    return found


def _texts() -> Iterator[tuple[str, str]]:
    title, lines = "", list[str]()
    for line in [*PAGE.read_text().splitlines(), "## "]:
        if line.startswith("##"):
            if title:
                yield title, " ".join(" ".join(lines).split())
            title, lines = line.lstrip("# ").lstrip("0123456789. "), []
        else:
            lines.append(line)


def places() -> dict[str, list[str]]:
    """Return the functions of the model, and of the steps of programs, that name each rule, with their lines."""
    lines: dict[str, dict[str, list[int]]] = {}
    for path in sorted(path for folder in FOLDERS for path in folder.glob("*.py") if path.stem != "rules"):
        for function, line, name in _named(ast.parse(path.read_text()), ""):
            place = f"{path.parent.name.strip('_')}.{path.stem}.{function}"
            if name in RULES and function:
                lines.setdefault(name, {}).setdefault(place, []).append(line)
    return {
        name: [f"`{place}` ({', '.join(map(str, sorted(set(numbers))))})" for place, numbers in by_place.items()]
        for name, by_place in lines.items()
    }


def _named(node: ast.AST, function: str) -> Iterator[tuple[str, int, str]]:
    """Yield the texts in the functions of a module, except the names of methods, each with its function and line."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
        return
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield function, each.lineno, each.value
        else:
            inner = f"{function}.{each.name}".strip(".") if isinstance(each, DEFINITIONS) else function
            yield from _named(each, inner)


if __name__ == "__main__":
    sys.stdout.write("\n".join(sections()) + "\n")
