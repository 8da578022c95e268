"""The mutants that run by day: those that the change touches, and a fifteenth of all. At night all of them run.

The fifteenth is that of the day on which the commit was made. If something is committed and tested each day, all
mutants run in a fortnight, however many commits a day has; those of a day without a commit are left to the night. The
number of commits would do worse: a push skips numbers, and a shallow clone has one commit.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Set
from pathlib import Path
from zlib import crc32

from mutants import MUTANTS
from mutants.base import Mutant
from mutants.child_processes import BY_ID
from mutants.executed_code import replaced_files
from mutants.matrix import proofs, stored

DAYS = 15
MOST = 60  # of those that a change touches, the first by their hash: the others are left to the night
ROOT = Path(__file__).parents[2]
FOLDERS = {"mutants": "tests/", "mqplug_testing": "contrib/mqplug-testing/"}
MAIN = ("origin/main", "main")


def by_day(changed: Set[str], day: int) -> list[type[Mutant]]:
    """Return the mutants of a day on which these files, named from the repository's root, are the change."""
    touched = sorted((each for each in MUTANTS if changed & files_of(each)), key=_hash)[:MOST]
    return [each for each in MUTANTS if each in touched or (_hash(each) - day) % DAYS == 0]


@functools.cache
def files_of(mutant: type[Mutant]) -> frozenset[str]:
    """Return the files whose change touches a mutant: its own, of the code that it replaces, and of its cases."""
    cases = {mutant.case, *_proofs()[mutant.__name__]}
    modules = {mutant.__module__, *(BY_ID[case].check.__module__ for case in cases)}
    paths = replaced_files(mutant) | {f"{module.replace('.', '/')}.py" for module in modules}
    return frozenset(FOLDERS.get(path.partition("/")[0], "") + path for path in paths)


def change(root: Path = ROOT) -> frozenset[str]:
    """Return the files that differ from where the branch left main, or on main from the last commit; none if unknown.

    ``MQPLUG_BASE`` names another commit to compare with.
    """
    base = os.environ.get("MQPLUG_BASE") or _base(root)
    if not base:
        return frozenset()
    names = _git(root, "diff", "--name-only", "--no-renames", "-z", base, "--")
    return frozenset((names + _git(root, "ls-files", "--others", "--exclude-standard", "-z")).split("\0")) - {""}


def day(root: Path = ROOT) -> int:
    """Return the day on which the commit was made, counted from 1970; 0 without git."""
    return int(_git(root, "log", "-1", "--format=%ct") or 0) // 86400


def _base(root):
    bases = (_git(root, "merge-base", "HEAD", main) for main in MAIN)
    base = next(filter(None, bases), "")
    return base if base != _git(root, "rev-parse", "HEAD") else _git(root, "rev-parse", "--verify", "HEAD^")


def _git(root, *arguments):
    """Return git's output; nothing if git is missing or fails."""
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@functools.cache
def _proofs():
    return proofs(stored())


def _hash(mutant):
    return crc32(mutant.__name__.encode())
