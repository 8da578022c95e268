"""The contract kit's checks of itself: no case is silently left out, and none passes by accident."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import uuid
from contextlib import ExitStack
from functools import partial

import attrs
import pytest
from mutants import Mutant

import mqplug
from mqplug import memory, spi
from mqplug_testing import CASES, Case, Harness, prove, run

pytest_plugins = "pytester"


@pytest.fixture
def harness_of():
    """Yield a harness for clients of a mutant that share one store, which lasts as long as the test."""
    with ExitStack() as opened:

        def make(plugin: Mutant) -> Harness:
            opened.enter_context(mqplug.register(plugin.name, plugin))
            store = uuid.uuid4().hex
            opened.enter_context(mqplug.connect("memory", name=store))
            connect = partial(mqplug.connect, plugin.name, name=store)
            return Harness(connect=connect, **plugin.hooks(connect))

        yield make


class Narrow(Mutant):
    """Memory that declares as few capabilities as possible."""

    def capabilities(self, sound):
        kept = {"delete_topic": True, "message_max_bytes": sound.message_max_bytes}
        return spi.Capabilities(**kept)


def test_a_case_that_compared_nothing_fails(harness_of):
    """KIT-08: a case whose checks never ran does not pass."""
    empty = Case("SEEK-01", lambda bench: None)
    with pytest.raises(pytest.fail.Exception, match="compared nothing"):
        run(empty, harness_of(Mutant("sound")))


def called() -> set[str]:
    """Return the operations that are client calls."""
    source = inspect.getsource(spi.Capabilities)
    lines = source.partition("# operations")[2].partition("# properties")[0].splitlines()
    return {line.split(":")[0].strip() for line in lines if ":" in line} - {"auth", "compression", "exclusive_open"}


@pytest.mark.night
def test_a_narrow_backend_passes_or_skips(harness_of):
    """KIT-03: no case uses an undeclared capability: it is refused, or skipped with the capability or hook named."""
    harness = Harness(connect=harness_of(Narrow("narrow")).connect)
    with harness.connect() as client:
        declared = {name for name, able in attrs.asdict(client.capabilities).items() if able is True}
    refused, reasons = set(), {}
    for case in CASES:
        try:
            if run(case, harness) == "refused":
                refused.add(case.id)
        except pytest.skip.Exception as skip:
            reasons[case.id] = skip.msg
    pattern = re.compile(r"(narrow does not declare|the harness has no) [a-z_]+(, and the harness has no [a-z_]+)?")
    assert [reason for reason in reasons.values() if not pattern.fullmatch(reason)] == []
    assert refused == {case.id for case in CASES if (set(case.needs) - declared) & called()}
    assert set(reasons) == {case.id for case in CASES if set(case.needs) - declared or case.hooks} - refused


def test_every_case_is_a_sentence():
    """Each case states its promise in one sentence, and names capabilities and hooks that exist."""
    capabilities = {field.name for field in attrs.fields(spi.Capabilities)}
    for case in CASES:
        assert case.title.endswith("."), case.id
        assert set(case.needs) <= capabilities, case.id
        assert set(case.hooks) <= {"outage", *attrs.fields_dict(Harness)}, case.id


def test_an_unknown_expected_failure_is_refused():
    """An expected failure of a case that does not exist is an error in the list."""
    with pytest.raises(ValueError, match="SEEK-99"):
        prove(known_failures={"SEEK-99": "no such case"})


CONTRACT = """
import mqplug, pytest
from mqplug_testing import Harness, prove

@pytest.fixture
def harness():
    return Harness(connect=lambda: mqplug.connect("memory://pytester"{settings}))

test_contract = prove({arguments})
"""


def test_expected_failures_are_strict(pytester):
    """KIT-05: an expected failure that passes fails the run."""
    pytester.makepyfile(CONTRACT.format(settings="", arguments="known_failures={'WM-01': 'once'}, only=['WM-01']"))
    pytester.runpytest_inprocess("-p", "no:randomly").assert_outcomes(failed=1)


def test_the_report_is_json(pytester):
    """KIT-10: the result can be written to a file, with one entry for each case."""
    pytester.makepyfile(CONTRACT.format(settings="", arguments="only=['WM']"))
    result = pytester.runpytest_inprocess("--mqplug-report=report.json")
    (found,) = json.loads((pytester.path / "report.json").read_text())["runs"]
    rows = found["cases"]
    assert {row["id"] for row in rows} == {case.id for case in CASES if case.group == "WM"}
    assert next(row for row in rows if row["id"] == "WM-17")["reason"] == "the harness has no restart"
    result.stdout.fnmatch_lines("mqplug contract: * cases, * passed, * skipped")


def test_a_failed_comparison_shows_both_sides(harness_of):
    """KIT-07: the expected and the seen value are shown whole, without help of pytest."""
    case = Case("SEEK-01", lambda bench: bench.equal([1, 2, 3], [1, 2, 4], "in order"))
    with pytest.raises(AssertionError) as caught:
        run(case, harness_of(Mutant("sound")))
    assert str(caught.value) == "in order\nexpected: [1, 2, 4]\nseen:     [1, 2, 3]"


def test_importing_the_kit_imports_no_backend():
    """KIT-11: the kit knows no backend until a harness connects."""
    program = "import sys, mqplug_testing; print(*[name for name in sys.modules if name.startswith('mqplug')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()} - {"mqplug", "mqplug_testing"}
    assert not loaded
    assert memory.__name__ not in done.stdout.split()
