"""The mutants that run by day: those that a change touches, and a fifteenth of all, which changes each day."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from mutants import MUTANTS
from mutants.base import KINDS
from mutants.by_day import DAYS, MOST, by_day, change, day, files_of

DAY = 20780


def touches(mutant, changed):
    """Return whether this mutant runs on each day on which this file is the change."""
    return all(KINDS[mutant] in by_day({changed}, DAY + later) for later in range(DAYS))


@pytest.mark.parametrize("first", range(DAYS))
def test_fifteen_days_bring_all_mutants(first):
    """In any fifteen days in a row, each mutant runs by day; no day has many more than a fifteenth."""
    days = [by_day(set(), DAY + first + later) for later in range(DAYS)]
    assert {mutant for chosen in days for mutant in chosen} == set(MUTANTS)
    assert max(map(len, days)) < 2 * len(MUTANTS) / DAYS


def test_a_change_of_a_mutant_runs_it():
    """A change of the module that defines a mutant touches the mutant."""
    assert touches("DropsEveryTenth", "tests/mutants/reading.py")
    assert not touches("DropsEveryTenth", "tests/mutants/resolving.py")


def test_a_change_of_what_is_patched_runs_the_mutant():
    """A change of a core module touches the mutants that replace something in it."""
    assert touches("with_attempts-ACK-18", "mqplug/_model/batch.py")
    assert touches("check_headers-HP-11", "mqplug/_produce/record.py")
    assert not touches("check_headers-HP-11", "mqplug/_model/batch.py")


def test_a_change_of_what_is_overridden_runs_the_mutant():
    """A change of a module of the memory backend touches the mutants that override it."""
    assert "mqplug/memory/_consumer.py" in files_of(KINDS["DropsEveryTenth"])
    assert "mqplug/memory/_hooks.py" in files_of(KINDS["LooksAsAGroup"])
    assert "mqplug/memory/_consumer.py" not in files_of(KINDS["LooksAsAGroup"])


def test_a_change_of_a_case_runs_the_mutants_that_it_kills():
    """A change of a contract module touches the mutants made for its cases, and those that prove them."""
    assert touches("with_attempts-ACK-18", "contrib/mqplug-testing/mqplug_testing/contract/test_ack_returning.py")
    assert touches("DropsEveryTenth", "contrib/mqplug-testing/mqplug_testing/contract/test_concurrency.py")
    assert not touches("with_attempts-ACK-18", "contrib/mqplug-testing/mqplug_testing/contract/test_concurrency.py")


def test_other_files_touch_no_mutant():
    """A change of an unrelated file adds nothing to the day's fifteenth."""
    assert by_day({"README.md", "plugins/mqplug-kafka/mqplug_kafka/_driver.py"}, DAY) == by_day(set(), DAY)


def test_a_large_change_leaves_most_to_the_night():
    """A change of all files adds a limited number of mutants, always the same."""
    everything = sorted({file for mutant in MUTANTS for file in files_of(mutant)})
    usual, chosen = by_day(set(), DAY), by_day(set(everything), DAY)
    assert len(usual) < len(chosen) <= len(usual) + MOST
    assert chosen == by_day(frozenset(everything), DAY)


# the change according to git --------------------------------------------------------------------------------


class Repository:
    """A repository in which a branch has left main."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        self.commit("second")

    def git(self, *arguments):
        who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True)

    def commit(self, name):
        (self.folder / name).touch()
        self.git("add", ".")
        self.git("commit", "--quiet", f"--message={name}", "--date=2026-11-24T12:00Z")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two commits on main, without a base from the environment."""
    if not shutil.which("git"):
        pytest.skip("there is no git")
    monkeypatch.delenv("MQPLUG_BASE", raising=False)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-11-24T12:00Z")
    return Repository(tmp_path)


def test_the_change_of_a_branch_is_what_it_adds_to_main(repository):
    """The change has the commits since the branch left main, uncommitted changes, and untracked files."""
    repository.git("checkout", "--quiet", "-b", "branch")
    repository.commit("third")
    repository.commit("fourth")
    (repository.folder / "second").write_text("altered")
    (repository.folder / "fifth").touch()
    assert change(repository.folder) == {"second", "third", "fourth", "fifth"}


def test_the_change_of_main_is_its_last_commit(repository):
    """On main itself the last commit is the change."""
    assert change(repository.folder) == {"second"}


def test_a_base_that_is_named_comes_first(repository, monkeypatch):
    """``MQPLUG_BASE`` names the commit to compare with."""
    monkeypatch.setenv("MQPLUG_BASE", "HEAD")
    assert change(repository.folder) == set()


def test_a_shallow_clone_knows_its_day_but_no_change(repository, tmp_path_factory):
    """Without the previous commit no change is known; the day of the commit is."""
    clone = tmp_path_factory.mktemp("clone")
    subprocess.run(["git", "clone", "--quiet", "--depth=1", repository.folder.as_uri(), clone], check=True)
    assert change(clone) == set()
    assert day(clone) == day(repository.folder) == 20781


def test_without_git_there_is_no_change(tmp_path, monkeypatch):
    """Outside a repository no change is known, and each run has the same fifteenth."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("MQPLUG_BASE", raising=False)
    assert (change(tmp_path), day(tmp_path)) == (set(), 0)
