"""The public names: the exports are complete, and all of them are documented."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_args

import attrs
import pytest

import mqplug
from mqplug import spi

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]


def _parts(path: Path) -> tuple[str, ...]:
    return path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts


FOLDERS = (ROOT / "mqplug", ROOT / "contrib/mqplug-testing/mqplug_testing")
PACKAGES = [
    name
    for folder in FOLDERS
    for path in (
        *sorted(folder.rglob("__init__.py")),
        *(
            file
            for each in ("spi/compiled.py", "spi/proxies.py", "spi/tokens.py", "introspection.py")
            for file in folder.glob(each)
        ),
    )
    if "._" not in (name := ".".join(_parts(path.relative_to(folder.parent))))
]
FACADES = [
    name for name in PACKAGES if name in {"mqplug", "mqplug.aio", "mqplug_testing", "mqplug.spi", "mqplug.spi.groups"}
]  # they export all they import


def methods_of(kind: type) -> Iterator[FunctionType]:
    """Return the public methods and properties that a class of ours defines, or inherits from one of ours."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("mqplug"):
            continue
        for name, member in vars(owner).items():
            function = (
                member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
            )
            if not name.startswith("_") and inspect.isfunction(function):
                yield function


HOOKS = {name: hook for name, hook in vars(spi.hookspecs).items() if name.startswith("mqplug_")}
PROTOCOLS = [kind for name in spi.__all__ if getattr(kind := getattr(spi, name), "_is_protocol", False)]
DRIVERS = [spi.Connection, spi.ProducerDriver, spi.TransactionDriver, spi.ConsumerDriver, spi.StageDriver]
SEAM = HOOKS | {method.__name__: method for kind in (*DRIVERS, *PROTOCOLS) for method in methods_of(kind)}


@pytest.fixture(params=PACKAGES)
def package(request) -> ModuleType:
    """Each package that users may import."""
    return import_module(request.param)


def test_the_packages_are_these():
    """The list of public packages here is complete, and so is that on the API page."""
    wanted = [
        "mqplug",
        "mqplug.aio",
        "mqplug.memory",
        "mqplug.spi",
        "mqplug.spi.groups",
        "mqplug.spi.compiled",
        "mqplug.spi.proxies",
        "mqplug.spi.tokens",
        "mqplug.introspection",
        "mqplug_testing",
        "mqplug_testing.contract",
        "mqplug_testing.debug",
        "mqplug_testing.faults",
        "mqplug_testing.history",
        "mqplug_testing.model",
        "mqplug_testing.programs",
        "mqplug_testing.recording",
    ]
    assert wanted == PACKAGES
    page = (ROOT / "docs/api.md").read_text()
    assert [name for name in PACKAGES if f"## {name}\n" not in page] == []


def test_what_is_promised_exists(package):
    """Each name in `__all__` exists, and is listed once."""
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert len(set(package.__all__)) == len(package.__all__)


def test_type_checkers_see_what_is_loaded(package):
    """Each name that a package imports for type checkers only is loaded on first use, and is the same object."""
    seen: dict[str, Any] = {}
    for node in body(package):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), package.__name__, "exec"), seen)
    names = set(seen) & set(package.__all__)
    assert names >= set(package.__all__) - set(vars(package))
    assert [name for name in names if getattr(package, name) is not seen[name]] == []


def test_what_is_there_is_promised(package):
    """Each public name that a package defines, or imports from a private module as a façade, is in `__all__`."""
    names = set(defined(package)) | (set(imported(package)) if package.__name__ in FACADES else set())
    assert {name for name in names if not name.startswith(("_", "mqplug_"))} - set(package.__all__) == set()


def test_what_is_promised_has_a_docstring(package):
    """Each exported class and function has a docstring, and so has each public method outside hooks and protocols."""
    kinds = [getattr(package, name) for name in package.__all__]
    kinds = [kind for kind in kinds if inspect.isclass(kind) or inspect.isfunction(kind)]
    assert [kind.__name__ for kind in kinds if not inspect.getdoc(kind)] == []
    methods = [method for kind in kinds if inspect.isclass(kind) for method in methods_of(kind)]
    assert [each.__qualname__ for each in methods if not each.__doc__ and each.__name__ not in SEAM] == []


def test_the_seam_is_documented():
    """Each hook and each method of a driver has a docstring, and each hook a row on the API page."""
    page = (ROOT / "docs/api.md").read_text()
    assert [name for name, function in SEAM.items() if not function.__doc__] == []
    assert [name for name in HOOKS if f"| `{name}` |" not in page] == []


def test_each_part_of_the_seam_is_obliged_to_or_optional():
    """The table of obligations names each action, hook and driver, each action at its capability."""
    page = (ROOT / "docs/driver-rules.md").read_text()
    section = page.partition("## What a capability obliges to")[2].partition("\n## ")[0]
    drivers = [kind.__name__ for kind in DRIVERS]
    actions = [kind.__name__ for kind in get_args(spi.Action)]
    assert [name for name in (*actions, *HOOKS, *drivers) if f"`{name}`" not in section] == []
    rows = {row.split("|")[1]: row for row in section.splitlines() if row.startswith("| `")}
    optional = set(get_args(spi.Action)) - {spi.CreateTopic, spi.DescribeTopic, spi.DescribeTopics}
    obliged = {
        kind.__name__: spi.unsupported(object.__new__(kind)).capability
        for kind in optional - {spi.DescribeGroupMembers}
    }
    assert [
        name for name, capability in obliged.items()
        if not any(f"`{capability}`" in first and f"`{name}`" in row for first, row in rows.items())
    ] == []  # fmt: skip
    declared = [name for first in rows for name in re.findall(r"`(\w+)`", first)]
    assert [name for name in declared if name not in attrs.fields_dict(spi.Capabilities)] == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_method_of_a_driver_has_its_rule(driver):
    """The page of driver rules names each public member of each base class."""
    page = (ROOT / "docs/driver-rules.md").read_text()
    members = {name for name in (*dir(driver), *driver.__annotations__) if not name.startswith("_")}
    assert [name for name in sorted(members) if not re.search(rf"`(\w+\.)?{name}\b", page)] == []


def test_every_call_of_a_client_is_in_the_rules():
    """Each public method of a client is named on the page of rules."""
    page = (ROOT / "docs/rules.md").read_text()
    calls = [name for name, _ in inspect.getmembers(mqplug.Client, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in calls if f"`{name}" not in page and f"mq.{name}(" not in page] == []


def defined(package: ModuleType) -> Iterator[str]:
    """Return the names of the functions, classes and constants that a package's own file defines."""
    for node in body(package):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def imported(package: ModuleType) -> Iterator[str]:
    """Return the names that a package's own file imports from private modules."""
    for node in body(package):
        if isinstance(node, ast.ImportFrom) and "._" in (node.module or ""):
            yield from (alias.asname or alias.name for alias in node.names)


def body(package: ModuleType) -> list[ast.stmt]:
    """Return the statements of a package's `__init__.py`."""
    return ast.parse(inspect.getsource(package)).body
