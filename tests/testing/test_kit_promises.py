"""The kit's tables of capabilities and calls have no holes, and its cases know no backend."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import mqplug_testing.contract
from mqplug import spi
from mqplug_testing import CASES
from mqplug_testing._case_ids import NO_CALL_YET, SINCE
from mqplug_testing._case_tools import bench
from mqplug_testing._case_tools.operation_calls import HOOKS_OF_OPERATIONS, OPERATION_CALLS
from mqplug_testing._harness.harness import hooks
from mqplug_testing.history._actors import faults
from mqplug_testing.history._run import processes

MODULES = sorted(Path(mqplug_testing.contract.__file__).parent.glob("*.py"))
PUBLIC = {"mqplug", "mqplug.aio", "mqplug.spi", "mqplug_testing"}


def operations() -> set[str]:
    """Return the capabilities below this heading in the class."""
    source = inspect.getsource(spi.Capabilities)
    lines = source.partition("# operations")[2].partition("# properties")[0].splitlines()
    return {line.split(":")[0].strip() for line in lines if ":" in line}


def test_each_operation_has_its_calls():
    """LIF-13: each operation has a call, or a hook that calls it, or no backend can declare it."""
    known = [*OPERATION_CALLS, *HOOKS_OF_OPERATIONS]
    assert sorted(known) == sorted(operations())
    assert {hook for case in CASES for hook in case.hooks} >= set(HOOKS_OF_OPERATIONS.values())


def test_what_has_no_call_has_no_case():
    """A capability without a call has no case, and a reason."""
    assert SINCE.keys().isdisjoint(NO_CALL_YET)
    assert all(NO_CALL_YET.values())


def test_the_manifest_is_complete():
    """KIT-04: each case is in the manifest with its version, once, and the manifest has no other."""
    assert len({case.id for case in CASES}) == len(CASES)
    assert sorted(SINCE) == sorted(case.id for case in CASES)
    page = (Path(__file__).parents[2] / "docs/contract-rules.md").read_text()
    assert set(re.findall(r"(?m)^\*\*([A-Z]+-\d+)\*\* · no call yet", page)) == set(NO_CALL_YET)


def test_each_hook_is_used():
    """A hook that nothing of the kit asks for is of no use."""
    others = [Path(module.__file__) for module in (bench, faults, processes)]
    text = "".join(path.read_text() for path in [*MODULES, *others])
    assert sorted(hook for hook in hooks() if hook not in text) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_cases_use_what_is_public(path):
    """A case imports only public names and the kit's own tools, and no backend."""
    tree = ast.parse(path.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {name for name in imported if name.partition(".")[0].startswith("mqplug")}
    assert {name for name in ours - PUBLIC if not name.startswith("mqplug_testing.")} == set()
