"""A harness's hooks: which it has, and why others are absent."""

from __future__ import annotations

from functools import partial

import attrs
import pytest

import mqplug
from mqplug_testing import CASES, Harness, run

pytest_plugins = "pytester"

BY_ID = {case.id: case for case in CASES}
TAKEN_OVER = "another node takes over"


@pytest.fixture
def connect():
    """Connect to a store that lasts as long as the test."""
    with mqplug.connect("memory://harness-hooks"):
        yield partial(mqplug.connect, "memory://harness-hooks")


def in_two(connect, **others):
    """A harness that can end the backend and start it again."""
    return Harness(connect=connect, kill=lambda: None, start=lambda: None, **others)


def test_an_outage_is_there_with_kill_and_start(connect):
    """A harness that can end a backend has an outage hook, unless it says that another node takes over."""
    with connect() as client:
        assert in_two(connect).has("outage", client)
        assert not Harness(connect=connect).has("outage", client)
        assert not in_two(connect, absent={"outage": TAKEN_OVER}).has("outage", client)
        assert in_two(connect, absent={"outage": TAKEN_OVER}).has("kill", client)


def test_a_skip_says_why_a_hook_is_absent(connect):
    """The given reason for an absent hook is the reason of the skip; without one the skip names only the hook."""
    case = attrs.evolve(BY_ID["FLT-12"], needs=())
    with pytest.raises(pytest.skip.Exception) as skipped:
        run(case, in_two(connect, absent={"outage": TAKEN_OVER}))
    assert skipped.value.msg == f"the harness has no outage: {TAKEN_OVER}"
    with pytest.raises(pytest.skip.Exception) as skipped:
        run(case, Harness(connect=connect))
    assert skipped.value.msg == "the harness has no kill, and the harness has no start"


class Limited:
    """A client without administration rights."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        if name in {"create_topic", "delete_topic", "trim"}:
            raise mqplug.AccessDenied(f"{name} is not allowed")
        return getattr(self._client, name)


def test_an_admin_makes_trims_and_deletes_the_topics(connect):
    """With ``admin``, a case that trims passes for clients without rights; without it, it is refused."""
    harness = Harness(connect=lambda: Limited(connect()), admin=connect)
    assert run(BY_ID["WM-05"], harness) == "passed"
    with connect() as client:
        assert client.topics() == []
    with pytest.raises(mqplug.AccessDenied):
        run(BY_ID["WM-05"], attrs.evolve(harness, admin=None))


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ({"explode": "too loud"}, "absent: unknown hook explode"),
        ({"connect": "offline"}, "absent: unknown hook connect"),
        ({"kill": "it is not ours"}, "absent: the harness has the hook kill"),
    ],
)
def test_what_is_said_to_be_absent_is(connect, absent, said):
    """Only a known hook that the harness does not have can be declared absent."""
    with pytest.raises(ValueError, match=said):
        in_two(connect, absent=absent)


CONTRACT = """
import mqplug, pytest
from mqplug_testing import Harness, prove

@pytest.fixture
def harness():
    known = {"WM-01": "it is never empty", "ID-01": "it has no ids", "WM-17": "it cannot be restarted"}
    return Harness(connect=CONNECT, known_failures=known)

test_contract = prove(only=["WM-01", "ID-01", "WM-17"])
"""
PASSING = "lambda: mqplug.connect('memory://harness-known')"


def test_a_harness_knows_what_fails(pytester):
    """A failure that the harness declares as known is no failure; if the case passes after all, it is one."""
    pytester.makepyfile(CONTRACT.replace("CONNECT", PASSING))
    result = pytester.runpytest_inprocess("-p", "no:randomly")
    result.assert_outcomes(failed=2, skipped=1)
    result.stdout.fnmatch_lines(["failed ID-01: *", "    it passed; remove it from the known failures"])


def test_what_a_harness_knows_to_fail_is_reported(pytester, monkeypatch):
    """The reason of a known failure is in the summary."""
    monkeypatch.setattr("mqplug_testing.Bench.topic", lambda *_: None)
    pytester.makepyfile(CONTRACT.replace("CONNECT", PASSING))
    result = pytester.runpytest_inprocess("-p", "no:randomly")
    result.assert_outcomes(xfailed=2, skipped=1)
    result.stdout.fnmatch_lines(["xfailed ID-01: it has no ids", "xfailed WM-01: it is never empty"])


def test_known_failures_of_a_harness_exist(connect):
    """The known failures of a harness name existing cases and their reasons."""
    for known, said in (
        ({"SEEK-99": "no such case"}, "unknown case SEEK-99; SEEK has cases from SEEK-01 to SEEK-"),
        ({"WM-01": ""}, "without a reason: WM-01"),
    ):
        with pytest.raises(ValueError, match=said):
            Harness(connect=connect, known_failures=known)
