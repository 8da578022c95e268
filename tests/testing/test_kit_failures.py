"""The output of a failed case: the rule first, then both sides whole, the case's function, and the backend's frames."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import wrong_seek_backends  # noqa: F401 - once for all runs: no two mutants have one name

from mqplug_testing import (
    CASES,
    check_options,  # noqa: F401 - once for all runs: the package keeps what the first one loaded
)

pytest_plugins = "pytester"

BY_ID = {case.id: case for case in CASES}
SEEK = "SEEK-33: A seek to the consumer's own position changes nothing. (contract-rules#seek-33)"
CONTRACT = """
import mqplug, pytest
from wrong_seek_backends import KIND
from mqplug_testing import Harness, prove

@pytest.fixture
def harness():
    with mqplug.register("broken", KIND("broken")), mqplug.connect("memory", name="broken"):
        yield Harness(connect=lambda: mqplug.connect("broken", name="broken"))
        AFTERWARDS

test_contract = prove(ARGUMENTS)
"""


@pytest.fixture
def prove(pytester, monkeypatch):
    """Run the contract over one of those backends, and return the lines of the result."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def start(kind, *options, only="SEEK-33", known=None, afterwards="pass"):
        source = CONTRACT.replace("KIND", kind).replace("AFTERWARDS", afterwards)
        pytester.makepyfile(source.replace("ARGUMENTS", f"only={only.split()!r}, known_failures={known!r}"))
        result = pytester.runpytest_inprocess("-p", "no:randomly", *options)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        return result.outlines

    return start


def shown(lines):
    """Return the output of the first failure, without the bar above it."""
    begin = next(number for number, line in enumerate(lines) if re.match(r"_{3,} .* _{3,}$", line)) + 1
    end = next(number for number, line in enumerate(lines[begin:], begin) if re.match(r"(-|=|_){3,} ", line))
    return "\n".join(lines[begin:end]).rstrip().split("\n")


def test_the_rule_comes_first(prove):
    """A failure begins with its rule, both sides with whole ids, and the case's function, without frames of the kit."""
    text = shown(prove("TooEarly"))
    assert text[:2] == [SEEK, ""]
    assert re.fullmatch(r"expected: \[MessageId\(memory kit-seek-33-\w+-\w{12}\[0\] 1\)\]", text[2])
    assert re.fullmatch(r"seen:     \[MessageId\(memory kit-seek-33-\w+-\w{12}\[0\] 0\)\]", text[3])
    assert re.search(r"test_seek\.py:\d+: in test_to_its_own_position$", text[5])
    assert text[6] == '    @case("SEEK-33")'
    assert text[-1].startswith(">   ")
    assert not any("_bench" in line or "_running" in line for line in text)


def test_a_summary_has_a_line_for_each(prove):
    """The summary names each failed case by its rule, with the difference, and merges none."""
    lines = prove("TooEarly", only="SEEK-05 SEEK-33")
    failed = [number for number, line in enumerate(lines) if line.startswith("failed ")]
    assert [lines[number] for number in failed] == [f"failed {BY_ID['SEEK-05'].headline}", f"failed {SEEK}"]
    assert all("expected" in lines[number + 1] and "seen" in lines[number + 1] for number in failed)
    assert any(line.startswith("FAILED ") and " - SEEK-33: A seek" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("LeavesATask", "Task was destroyed but it is pending"),
        ("LeavesACoroutine", "coroutine 'sleep' was never awaited"),
    ],
)
def test_what_a_driver_leaves_behind_fails_the_case(prove, kind, complaint):
    """A case during which a driver abandons a task or coroutine fails, although all promises held."""
    assert any(complaint in line for line in prove(kind, "-Wdefault"))


def test_workers_tell_the_same(prove, monkeypatch):
    """With workers the failure is the same, and the short summary names the rule."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "helpers"))
    lines = prove("TooEarly", "-n1")
    assert shown(lines)[1] == SEEK, "below the line that names the worker"
    assert any(line.startswith("FAILED ") and " - SEEK-33: A seek" in line for line in lines)


def test_a_backend_sees_its_own_frames(prove):
    """An unexpected exception of the backend is shown with the backend's frames, and those of its cause."""
    text = shown(prove("Defective"))
    assert text[0] == SEEK
    assert text[2:4] == ["expected: no error", text[3]]
    assert text[3].startswith("seen:     PluginError: the driver raised RuntimeError: seek has no table")
    joined = "\n".join(text)
    assert '{}["table"]' in joined
    assert "KeyError: 'table'" in joined
    assert 'raise RuntimeError("seek has no table")' in joined
    assert not re.search(r"mqplug_testing/_|_pytest|pluggy|contextlib", joined)


def test_an_error_names_the_step_that_it_ends(prove):
    """A case of many steps names the step that an exception of the backend ended, in the text and in the summary."""
    lines = prove("OpensNoGroup", only="GRP-21")
    text = shown(lines)
    assert text[2] == "ordered, EARLIEST"
    assert text[3] == "expected: no error"
    assert text[4].startswith("seen:     PluginError: the driver raised RuntimeError: start_group has no table")
    assert any(line.startswith(">") and "bench.member(topic" in line for line in text)
    assert any('raise RuntimeError("start_group has no table")' in line for line in text)
    assert any(line.startswith("    ordered, EARLIEST: expected no error") for line in lines)


def test_an_error_in_the_place_of_another_is_shown(prove):
    """If another error than the promised one is raised, both are named, with the frames of the raised one."""
    text = shown(prove("Raising", only="SEEK-13"))
    assert text[0] == BY_ID["SEEK-13"].headline
    assert "PositionLost: gone for good" in "\n".join(text[1:5])
    assert any('raise mqplug.PositionLost("gone for good")' in line for line in text)


def test_a_case_that_hangs_names_its_rule(prove):
    """A case that runs out of time begins with its rule, and shows where it hangs."""
    text = shown(prove("Hanging", "--mqplug-scale=0.04"))  # time enough to reach the place where it hangs
    assert text[:4] == [SEEK, "", "expected: an end within 4.8s", "seen:     it was still running"]
    assert any("time.sleep(60)" in line for line in text)


def test_a_fixture_that_fails_afterwards_is_told_apart(prove):
    """An error of the harness after the case names the case, and says that its promise was not broken."""
    text = shown(prove("Sound", afterwards="raise OSError('cannot stop the server')"))
    assert text[0] == SEEK
    assert text[2] == "The case was run. Its fixtures failed afterwards."
    assert text[-1] == "OSError: cannot stop the server"


def test_a_known_failure_that_passes_says_so(prove):
    """A known failure that passes is reported by its rule, with the given reason."""
    text = shown(prove("Sound", known={"SEEK-33": "it drifts"}))
    assert text[0] == SEEK
    assert text[2:] == [
        "expected: a known failure: it drifts",
        "seen:     it passed; remove it from the known failures",
    ]


def test_pytest_still_shows_all(prove):
    """With ``--full-trace`` or another traceback style pytest shows its frames, and the summary the rule."""
    lines = prove("TooEarly", "--tb=long")
    assert any("_case_tools/bench.py" in line for line in lines)
    assert any(line.startswith("FAILED ") and " - SEEK-33: A seek" in line for line in lines)


def test_junit_has_id_and_rule(prove, pytester):
    """The JUnit file has id, sentence and link as properties, and the failure has the rule."""
    prove("TooEarly", "--junitxml=junit.xml", only="SEEK-33 WM-17")
    failed, skipped = sorted(
        ElementTree.parse(pytester.path / "junit.xml").iter("testcase"), key=lambda each: each.get("name")
    )
    found = {each.get("name"): each.get("value") for each in failed.iter("property")}
    case = BY_ID["SEEK-33"]
    assert found == {"mqplug_id": case.id, "mqplug_rule": case.title, "mqplug_link": "contract-rules#seek-33"}
    assert {each.get("value") for each in skipped.iter("property")} >= {"WM-17", BY_ID["WM-17"].title}
    assert failed.find("failure").get("message") == SEEK


def test_the_seed_decides_what_is_drawn(prove):
    """A case that draws at random names the seed that repeats it, and the same seed draws the same."""
    texts = ["\n".join(shown(prove("TooEarly", *seed, only="SEEK-34"))) for seed in (["--mqplug-seed=7"], [])]
    assert "--mqplug-seed=7, step 0" in texts[0]
    [seed] = set(re.findall(r"--mqplug-seed=(\d+), step", texts[1]))
    again = "\n".join(shown(prove("TooEarly", f"--mqplug-seed={seed}", only="SEEK-34")))
    step = re.compile(r"step \d+: .*?(?=\()")
    assert step.search(again)[0] == step.search(texts[1])[0]


def test_each_rule_has_an_anchor_of_its_own(monkeypatch):
    """The link of each case leads to its paragraph: the page is built with an anchor for each rule."""
    docs = Path(__file__).parents[2] / "docs"
    namespace = {"__file__": str(docs / "conf.py")}
    monkeypatch.syspath_prepend(docs)  # as Sphinx does
    exec((docs / "conf.py").read_text(), namespace)
    page = [(docs / "contract-rules.md").read_text()]
    namespace["add_anchors"](None, "contract-rules", page)
    anchors = re.findall(r"^\(([a-z]+-\d+)\)=\n\*\*([A-Z]+-\d+)\*\*", page[0], re.MULTILINE)
    assert all(anchor == rule.lower() for anchor, rule in anchors)
    assert {case.link for case in CASES} <= {f"contract-rules#{anchor}" for anchor, _ in anchors}
    other = ["**SEEK-05** · must\\\n"]
    namespace["add_anchors"](None, "rules", other)
    assert other == ["**SEEK-05** · must\\\n"]
