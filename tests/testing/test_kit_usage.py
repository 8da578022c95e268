"""The contract kit as its users see it: by URL, as tests of a plugin, with known failures, and its reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from mutants.reading import NoneBecomesEmpty
from written_histories import Story, verdict_of

import mqplug
import mqplug_pytest
from mqplug_cli import run_command as mqplug_command
from mqplug_testing import CASES, Harness, Waiting, prove, run
from mqplug_testing._case_tools.run_settings import PROFILES, RunSettings
from mqplug_testing._running import SHARED_DIRECTORY_VARIABLE, running
from mqplug_testing.history import History, check

pytest_plugins = "pytester"

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/contract-report.schema.json").read_text())

CONTRACT = """
import mqplug, pytest
from mqplug_testing import Harness, prove

@pytest.fixture
def harness():
    return Harness(connect=lambda: mqplug.connect("memory://pytester"))

test_contract = prove({arguments})
"""


@pytest.fixture
def contract(pytester, monkeypatch):
    """Run the contract as a plugin's test, with the arguments of ``prove`` and options of pytest."""
    for name in ("MQPLUG_PROFILE", "MQPLUG_TIME_SCALE", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)

    def start(arguments="", *options):
        pytester.makepyfile(CONTRACT.format(arguments=arguments))
        return pytester.runpytest_inprocess("-p", "no:randomly", *options)

    return start


@pytest.fixture
def by_url(pytester, monkeypatch):
    """Run the cases by URL, in a separate process."""
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)

    def start(*options):
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--pyargs", "mqplug_testing.contract", *options)

    return start


def names(result):
    """Return the ids of the cases that ran, in order."""
    found = [re.search(r"::test_\w+(?:\[(.+?)\])? (?:PASSED|SKIPPED)", line) for line in result.outlines]
    return [match[0] for match in found if match]


def test_a_case_is_a_test_function():
    """Each case is a function that pytest collects by its name, in an importable module."""
    for case in CASES:
        assert case.check.__name__.startswith("test_"), case.id
        assert case.check.__module__.startswith("mqplug_testing.contract.test_"), case.id
        assert [mark.args for mark in case.check.pytestmark] == [(case,)], case.id


def test_no_code_is_needed(by_url):
    """``pytest --pyargs mqplug_testing.contract --mqplug-url`` runs the contract over the backend of the URL."""
    result = by_url("--mqplug-url=memory://?like=kafka", "--mqplug-only=WM")
    result.assert_outcomes(passed=sum(case.group == "WM" for case in CASES))
    result.stdout.fnmatch_lines(["*mqplug contract: memory full*", "WM *", "mqplug contract: * cases, *"])


def test_one_case_runs_alone(pytester):
    """A single case runs by its file and name, as an editor runs it, by default over the memory backend."""
    case = next(case for case in CASES if case.id == "SEEK-05")
    module = sys.modules[case.check.__module__]
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"{module.__file__}::{case.check.__name__}")
    result.assert_outcomes(passed=1)


def test_a_backend_may_bring_its_harness():
    """The memory backend's own harness is found by the scheme of the URL, and adds hooks to connecting."""
    from mqplug_testing import harness_for

    with harness_for("memory://") as harness, harness.connect() as one, harness.connect() as other:
        one.create_topic("seen-by-both")
        assert other.topics() == ["seen-by-both"]
        assert harness.trim_before is not None


def test_a_url_alone_can_connect(tmp_path):
    """If a backend has no harness, the kit connects by the URL, or by the file in its place."""
    from mqplug_testing import harness_for

    path = tmp_path / "mine.toml"
    path.write_text("url = 'memory://harness-of-a-file'\n")
    with harness_for(str(path)) as harness, harness.connect() as client:
        client.create_topic("here")
        with mqplug.connect("memory://harness-of-a-file") as other:
            assert other.topics() == ["here"]
        assert harness.trim_before is None


def test_the_seed_decides_the_order(contract):
    """KIT-09: the same seed gives the same order, another seed another; without one the cases are sorted."""
    orders = [
        names(contract("only=['ID']", "-v", *option))
        for option in ((), ["--mqplug-seed=7"], ["--mqplug-seed=7"], ["--mqplug-seed=8"])
    ]
    assert orders[0] == sorted(orders[0])
    assert orders[1] == orders[2]
    assert orders[1] not in (orders[0], orders[3])
    assert sorted(orders[3]) == orders[0]


def test_profiles_contain_each_other():
    """The full profile includes quick, and soak runs everything."""
    ran = [{case.id for case in CASES if case.runs_in(profile)} for profile in PROFILES]
    assert ran[0] <= ran[1] <= ran[2] == {case.id for case in CASES}


def test_a_profile_chooses_cases(contract, monkeypatch):
    """The profile comes from the command line, else from the environment, else from the author."""
    slow = next(case for case in CASES if case.profile == "full" and not case.hooks and not case.needs)
    arguments = f"only=['{slow.id}'], profile='quick'"
    contract(arguments).assert_outcomes(deselected=1)
    contract(arguments, "--mqplug-profile=soak").assert_outcomes(passed=1)
    monkeypatch.setenv("MQPLUG_PROFILE", "full")
    contract(arguments).assert_outcomes(passed=1)


@pytest.mark.parametrize("options", [[], ["-n1"]], ids=["alone", "workers"])
def test_a_quick_run_names_what_only_a_full_one_runs(contract, monkeypatch, options):
    """The summary of a quick run names those of the selected cases that only the full profile runs."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    lines = contract("only=['FLT', 'TO', 'WM-01']", "--mqplug-profile=quick", *options).outlines
    full = [case.id for case in CASES if case.group in ("FLT", "TO") and case.profile == "full"]
    assert f"{len(full)} cases run only in the profile full: {' '.join(full)}" in lines
    faults = r"faults were not all tried: \d+ of the \d+ cases of FLT and TO did not run; the profile full"
    assert any(re.match(faults, line) for line in lines)
    assert "only the profile" not in contract("only=['WM-01']", "--mqplug-profile=quick").stdout.str()


@pytest.mark.parametrize("options", [[], ["-n1"]], ids=["alone", "workers"])
def test_a_quick_run_names_the_variants_that_it_leaves_out(contract, monkeypatch, options):
    """The summary and the report of a quick run name the parts of a case that only the full profile runs."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    quick = contract("only=['CON-16', 'CON-01']", "--mqplug-profile=quick", "--mqplug-report=report.json", *options)
    assert "CON-16 leaves out in the profile quick: a consumer without a group" in quick.outlines
    (run,) = json.loads(Path("report.json").read_text())["runs"]
    assert {row["id"]: row["left_out"] for row in run["cases"]} == {
        "CON-01": [],
        "CON-16": ["a consumer without a group"],
    }
    assert "leaves out" not in contract("only=['CON-16']", "--mqplug-profile=full").stdout.str()


@pytest.mark.parametrize(
    ("keyword", "found"),
    [
        ("CON", lambda case: case.group == "CON"),
        ("TO", lambda case: case.group == "TO"),
        ("SEEK-05", lambda case: case.id == "SEEK-05"),
        ("SEEK-1 or WM-0", lambda case: case.id.startswith(("SEEK-1", "WM-0"))),
        ("ACK-07", lambda case: case.id in ("ACK-07", "ACK-07-shared")),
        ("WM and not WM-01", lambda case: case.group == "WM" and case.id != "WM-01"),
        ("(SEEK-05)", lambda case: case.id == "SEEK-05"),
        ("wm-01", lambda case: case.id == "WM-01"),
        ("contract", lambda case: True),
    ],
)
def test_a_keyword_is_looked_for_in_ids(contract, keyword, found):
    """With ``-k`` a group or an id in capitals matches only case ids, and other words match as usual in pytest."""
    result = contract("", "--collect-only", "-q", "-k", keyword, "--mqplug-profile=soak")
    collected = {line.partition("[")[2].rstrip("]") for line in result.outlines if "::test_contract[" in line}
    assert collected == {case.id for case in CASES if found(case)}


def test_a_keyword_finds_cases_by_url(by_url):
    """The same keywords select cases by URL, where functions have no id in their names."""
    result = by_url("--collect-only", "-q", "-k", "CON-0 and not CON-01")
    assert len([line for line in result.outlines if "::test_" in line]) == 8


def test_a_keyword_leaves_other_tests_alone(contract, pytester):
    """Keywords select other tests as usual in pytest."""
    pytester.makepyfile(test_other="def test_connects(): pass")
    result = contract("", "--collect-only", "-q", "-k", "SEEK-05 or connects")
    assert [line.rpartition("::")[2] for line in result.outlines if "::" in line] == [
        "test_contract[SEEK-05]", "test_connects",
    ]  # fmt: skip


def test_several_are_chosen_at_once(contract):
    """Cases, groups and prefixes of ids are chosen one by one or separated by commas."""
    chosen = contract("", "--collect-only", "-q", "--mqplug-only=SEEK-05, WM-01", "--mqplug-only=ID-0").outlines
    assert sum("::test_contract[" in line for line in chosen) == 2 + sum(case.id[:4] == "ID-0" for case in CASES)


def test_newer_cases_do_not_fail(contract, monkeypatch):
    """With ``kit`` pinned, a case of a later version is reported, whether it fails or not."""
    from mqplug_testing import _case_ids

    monkeypatch.setitem(_case_ids.SINCE, "WM-01", "0.2.0")
    monkeypatch.setattr("mqplug_testing.contract.test_watermarks.Bench.marks", lambda *_: None)
    contract("only=['WM-01'], kit='0.1.0'").assert_outcomes(xfailed=1)
    contract("only=['WM-01'], kit='0.2'").assert_outcomes(failed=1)
    contract("only=['WM-01']", "--mqplug-kit=0.1").assert_outcomes(xfailed=1)
    contract("only=['WM-07'], kit='0.0.9'").assert_outcomes(xpassed=1)


def test_known_failures_are_strict(contract, pytester):
    """A known failure that passes fails the run, whether the test or a file declares it."""
    contract("known_failures={'WM-01': 'once'}, only=['WM-01']").assert_outcomes(failed=1)
    (pytester.path / "known.toml").write_text('WM-01 = "once"\n')
    contract("only=['WM-01']", "--mqplug-known-failures=known.toml").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"known_failures": {"SEEK-99": "no such case"}}, "unknown case SEEK-99; SEEK has cases from SEEK-01 to SEEK-"),
        ({"known_failures": {"SEEK-01": ""}}, "known failures without a reason: SEEK-01"),
        ({"only": ["SEEK", "SEAK"]}, "unknown case SEAK. Did you mean SEEK"),
        ({"only": ["SEEK-3", "ID-9"]}, "unknown case ID-9; ID has cases from ID-01 to ID-"),
        ({"only": ["BIG-03"]}, "case BIG-03 cannot run: messages are not split"),
        ({"kit": "one"}, "'one' is not a version of mqplug"),
        ({"scale": 0}, "scale"),
        ({"profile": "fast"}, "profile"),
    ],
)
def test_wrong_arguments_are_refused(arguments, said):
    """An invalid argument is refused where it is written."""
    with pytest.raises(ValueError, match=said):
        prove(**arguments)


@pytest.mark.parametrize("option", ["--mqplug-only=SEAK", "--mqplug-kit=one", "--mqplug-known-failures=missing.toml"])
def test_wrong_options_are_refused(contract, option):
    """A wrong option ends the run before any case, with a line that names the problem."""
    result = contract("", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert any(line.startswith("ERROR: ") for line in result.errlines)


def test_the_report_follows_its_schema(contract, pytester):
    """The JSON report is valid against the published schema, and says what was proven, and by what."""
    contract("only=['WM', 'LIF', 'ERR-05']", "--mqplug-report=report.json", "--mqplug-report=report.md")
    report = json.loads((pytester.path / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    (found,) = report["runs"]
    assert (found["backend"], found["profile"]) == ("memory", "full")
    assert found["versions"]["mqplug"] == mqplug.__version__
    assert found["capabilities"]["groups"] is True
    assert sum(found["counts"].values()) == len(found["cases"])
    rows = {row["id"]: row for row in found["cases"]}
    assert rows["WM-17"]["reason"] == "the harness has no restart"
    assert rows["WM-01"]["outcome"] == "passed"


def test_the_report_has_the_cases_of_workers(contract, pytester, monkeypatch):
    """With workers, the report and the lines include every case from the first one on."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    printed = contract("only=['ID']", "-n1", "--mqplug-report=report.json", "--mqplug-lines").stdout.str()
    (found,) = json.loads((pytester.path / "report.json").read_text())["runs"]
    ids = sorted(case.id for case in CASES if case.group == "ID")
    assert [row["id"] for row in found["cases"]] == ids
    assert re.findall(rf"^ ?(\d+) of {len(ids)}  ID-", printed, re.MULTILINE) == [str(n + 1) for n in range(len(ids))]


def test_the_report_is_a_table(contract, pytester):
    """The Markdown report has a row for each group, and one for the total."""
    contract("only=['WM', 'ERR-05']", "--mqplug-report=report.md")
    lines = (pytester.path / "report.md").read_text().splitlines()
    assert lines[0].startswith("**The contract of mqplug over memory** (profile full; python 3")
    assert "| group | passed | skipped |" in lines
    assert [line for line in lines if line.startswith("| ERR |")] == ["| ERR |  | 1 |"]


def test_undeclared_operations_are_refused(contract):
    """Cases of an undeclared operation pass if its calls are ``Unsupported``, and are counted separately."""
    result = contract("only=['GRP-13', 'ACK-08']", "--mqplug-report=report.json")
    result.assert_outcomes(passed=2)
    with mqplug.connect("memory://refusing?like=kafka") as keep:
        harness = Harness(connect=lambda: mqplug.connect("memory://refusing?like=kafka"))
        case = next(case for case in CASES if case.id == "GRP-13")
        assert not keep.capabilities.shared
        assert run(case, harness) == "refused"


def test_waiting_is_stretched():
    """KIT-06: one factor scales all three kinds of waiting."""
    assert Waiting().scaled(3) == Waiting(something=90, nothing=0.6000000000000001, poll=0.03)
    assert RunSettings().overridden(scale=2.0, kit=None).scale == 2


PRESENCE = """
import sys, time
from pathlib import Path
from mqplug_testing._running import running
name, alone, folder = sys.argv[1], sys.argv[2] == "alone", Path(sys.argv[3])
with running(alone=alone):
    (folder / name).touch()
    time.sleep(0.3)
    print(name, sorted(each.name for each in folder.iterdir()))
    (folder / name).unlink()
"""


def test_timed_cases_run_alone(tmp_path, monkeypatch):
    """KIT-09: with several workers, a case that measures the clock runs while no other does."""
    assert SHARED_DIRECTORY_VARIABLE == mqplug_pytest.SHARED_DIRECTORY_VARIABLE  # which the plugin sets in workers
    monkeypatch.setenv(SHARED_DIRECTORY_VARIABLE, str(tmp_path))
    present = tmp_path / "present"
    present.mkdir()
    started = [
        subprocess.Popen([sys.executable, "-c", PRESENCE, name, how, str(present)], stdout=subprocess.PIPE, text=True)
        for name, how in [("a", "beside"), ("b", "beside"), ("timed", "alone"), ("c", "beside"), ("d", "beside")]
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in started]
    assert "timed ['timed']" in said
    assert all("timed" not in line for line in said if not line.startswith("timed"))
    with running(alone=True):
        assert list(present.iterdir()) == []


def test_the_command_proves_a_backend(capfd):
    """``mqplug test URL`` runs the cases, names their order, and prints the result."""
    assert mqplug_command(["test", "memory://", "--only", "ID", "--seed", "3"]) == 0
    printed = capfd.readouterr().out
    assert "the order is --seed 3" in printed
    assert f"mqplug contract: {sum(case.group == 'ID' for case in CASES)} cases" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere://", "--only", "TXN"], 2, "unknown case TXN. Did you mean TX? Write a group (ACK, BIG, "),
        (["nowhere://", "--kit", "one"], 2, "'one' is not a version of mqplug"),
        (["nowhere://", "--known-failures", "missing.toml"], 2, "No such file or directory: 'missing.toml'"),
        (["nowhere://", "--history", "1s", "--only", "WM"], 2, "--only is for cases, and --history runs none"),
        (["nowhere://", "--random", "1s", "--only", "WM"], 2, "--only is for cases, and --random runs none"),
        (["nowhere://", "--random", "1s", "--history", "1s"], 2, "--history and --random are two different runs"),
        (["nowhere://", "--corpus", "file"], 2, "--corpus is for random programs: pass --random"),
        (["memory://", "--history", "soon"], 2, "'soon' is not a duration; write one such as 60s, 10m, 1h, 2d or 1w"),
        (["memory://", "--profile", "fast"], 2, "'fast' is not one of"),
        (["nowhere://"], 1, "unknown backend 'nowhere'"),
    ],
)
def test_the_command_refuses(capfd, arguments, code, said):
    """Wrong arguments are refused before connecting, with their own exit code and a line that names the problem."""
    assert mqplug_command(["test", *arguments]) == code
    assert said in "".join(capfd.readouterr())


def test_without_the_kit_the_command_says_what_to_install(capfd, monkeypatch):
    """Without the kit, the command is refused before it connects."""
    monkeypatch.setattr("mqplug_cli._commands.prove.find_spec", lambda _: None)
    assert mqplug_command(["test", "nowhere://"]) == 2
    assert "the contract kit is not installed. Run pip install 'mqplug[testing]'" in capfd.readouterr().err


WAITS_BEFORE_THE_SECOND = """
import time
from pathlib import Path

started = []

def pytest_runtest_setup(item):
    started.append(item)
    until = time.monotonic() + 60
    while len(started) == 2 and not Path("go-on").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
"""


def test_the_command_shows_each_case_at_a_pipe(tmp_path, monkeypatch):
    """In a pipe, each case has its line as soon as it ends, and no dot."""
    (tmp_path / "waits_before_the_second.py").write_text(WAITS_BEFORE_THE_SECOND)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p waits_before_the_second")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    words = [sys.executable, "-m", "mqplug_cli", "test", "memory://", "--only", "ID-01,ID-02"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        first = next(line for line in process.stdout if " of " in line)
        (tmp_path / "go-on").touch()
        printed = process.stdout.read()
    assert re.fullmatch(r"1 of 2  ID-0[12] passed in [\d.]+ s\n", first)
    assert printed.startswith("2 of 2  ID-0")
    assert "[100%]" not in printed


def test_the_line_of_a_failure_has_its_promise(contract):
    """In a list with one line per case, a failure's line has its promise."""
    lines = contract("known_failures={'ID-01': 'once'}, only=['ID-01']", "--mqplug-lines").outlines
    title = next(case.title for case in CASES if case.id == "ID-01")
    assert any(re.fullmatch(rf"1 of 1  ID-01 failed in [\d.]+ s: {re.escape(title)}", line) for line in lines)


def test_the_command_keeps_a_history_with_an_anomaly(capfd, tmp_path, monkeypatch):
    """An anomaly's history is kept for later, even without a file option."""
    found = Story().sent(a=1, b=2).final(b=2).history
    verdict = verdict_of(found)
    monkeypatch.setattr("mqplug_testing.check_history", lambda *_, **__: verdict)
    monkeypatch.chdir(tmp_path)
    assert mqplug_command(["test", "memory://", "--history", "1s", "--seed", "5"]) == 1
    assert check(History.load("history-5.jsonl")) == verdict.anomalies
    assert "history-5.jsonl" in capfd.readouterr().out


def test_the_command_searches_a_history(capfd, tmp_path):
    """``mqplug test URL --history`` prints a verdict in one line, and keeps the history on request."""
    file = tmp_path / "history.jsonl"
    assert mqplug_command(["test", "memory://", "--history", "1s", "--seed", "5", "--history-file", str(file)]) == 0
    assert re.search(r"^exactly once: no anomaly; .*; seed 5$", capfd.readouterr().out, re.MULTILINE)
    assert json.loads(file.read_text().splitlines()[0])["seed"] == "5"


def test_the_command_runs_random_programs(capfd):
    """``mqplug test URL --random`` prints how much was done, and the seed."""
    assert mqplug_command(["test", "memory://", "--random", "1s", "--seed", "5"]) == 0
    assert re.search(r"^\d+ programs, \d+ steps, .* --seed 5$", capfd.readouterr().out, re.MULTILINE)


def test_the_command_shows_a_program_that_breaks_a_rule(capfd, tmp_path, monkeypatch):
    """A broken rule ends the run with 1, and with the program that shows it, which the next run repeats first."""
    monkeypatch.chdir(tmp_path)
    with mqplug.register("broken", NoneBecomesEmpty("broken")):
        assert mqplug_command(["test", "broken://programs", "--random", "60s", "--seed", "1"]) == 1
        printed = capfd.readouterr().out
        assert "= mqplug.connect('broken://programs')" in printed
        assert "# This breaks the rule 'content' of docs/rules.md" in printed
        assert "the next run repeats this program first: it is in random-programs.jsonl" in printed
        assert mqplug_command(["test", "broken://programs", "--random", "60s", "--seed", "2"]) == 1
        assert "1 programs of the corpus, 0 programs, 0 steps" in capfd.readouterr().out


def test_the_command_refuses_a_corpus_of_another_version(capfd, tmp_path):
    """A corpus that cannot be read is named with its line."""
    corpus = tmp_path / "corpus"
    corpus.write_text("{}\n")
    assert mqplug_command(["test", "memory://", "--random", "1s", "--corpus", str(corpus)]) == 2
    assert f"{corpus}, line 1: no program of this version" in capfd.readouterr().err
