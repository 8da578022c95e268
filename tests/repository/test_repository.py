"""Rules for the whole repository: pages that are up to date with the code, and imports that point inward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqplug

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "mqplug",
    "mqplug.aio",
    "mqplug_testing.debug",
    "mqplug_testing.faults",
    "mqplug_testing.recording",
    "mqplug.spi",
    "mqplug.spi.groups",
    "mqplug.memory",
    "mqplug.spi.proxies",
    "mqplug.spi.tokens",
    "mqplug.spi.compiled",
    "mqplug.introspection",
    "mqplug_testing",
}
PACKAGES = sorted(path.parent for path in ROOT.glob("*/mqplug-*/*mqplug*/__init__.py"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/mqplug-*/*.md")]


def test_every_error_is_documented():
    """Each error that mqplug exports has a row on the page of errors."""
    page = (ROOT / "docs/errors.md").read_text()
    public = [getattr(mqplug, name) for name in mqplug.__all__]
    errors = [kind for kind in public if isinstance(kind, type) and issubclass(kind, mqplug.Error)]
    assert [kind for kind in errors if f"| `{kind.__name__}` |" not in page] == []


def test_ci_runs_the_command_of_the_readme():
    """CI runs the command in the README."""
    command = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"\n$ {command}\n" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    """Each relative link of a page names an existing file."""
    targets = re.findall(r"\]\((?!\w+:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_distributions_use_the_public_names_alone(package: Path):
    """A plugin, or a distribution built on plugins, imports only mqplug's exports and its own compiled part."""
    own = {path.name for path in package.parent.iterdir()} | {f"{package.name}_native"}
    strangers = {name for file in package.rglob("*.py") for name in imports(file) if is_ours(name)} - PUBLIC
    assert {name for name in strangers if name.partition(".")[0] not in own} == set()


def test_the_core_imports_no_plugin():
    """The core knows plugins by their entry points, never by import."""
    names = {name for file in (ROOT / "mqplug").rglob("*.py") for name in imports(file)}
    assert {name for name in names if name.partition(".")[0] in {package.name for package in PACKAGES}} == set()


def is_ours(name: str) -> bool:
    """Return whether a module belongs to this repository."""
    return "mqplug" in name.partition(".")[0]


def imports(file: Path) -> Iterator[str]:
    """Return the modules that a file imports, and the private names it takes from mqplug."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name.startswith("_"))
