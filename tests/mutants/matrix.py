"""Which case kills which mutant: the trials that determine it, and the stored result.

The tests run against a mutant the case that it was made for, the cases of which it is the proof, and one of the brief
contract. ``python -m mutants`` runs all that reach what it replaces.
"""

from __future__ import annotations

import fcntl
import json
import pickle
import time
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from mutants.base import Mutant
from mutants.child_processes import BY_ID, outcomes, reach
from mutants.executed_code import Reach
from mutants.trial import SOUND

STORED = Path(__file__).with_name("matrix.json")
PROOFS = 1  # mutants for each case whose death is checked in each run
LONG = 12.0  # seconds for a mutant, besides the cases that are known to kill it
PARTS = 8


class Kills:
    """The kills of mutants. What the cases reach on a sound backend is measured once, and kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reached = {}

    def reached(self, sound):
        """Return what the cases execute over a sound backend: all over memory, over another those that memory skips."""
        if sound not in self._reached:
            cases = list(BY_ID)
            if sound is not Mutant:
                cases = [case for case, outcome in self.reached(Mutant).outcomes.items() if outcome == "skipped"]
            self._reached[sound] = self._measured(sound, cases)
        return self._reached[sound]

    def _measured(self, sound, cases):
        """Measure in parts: each worker of a run takes those that no other has taken."""
        paths = {part: self._folder / f"{sound.__name__}-{part}.pickle" for part in range(PARTS)}
        for wait in (False, True):
            for part, path in paths.items():
                with _locked(path, wait=wait) as mine:
                    if mine and not path.exists():
                        path.write_bytes(pickle.dumps(reach(sound, cases[part::PARTS])))
        found = Reach()
        for path in paths.values():
            found.join(pickle.loads(path.read_bytes()))
        return found

    def outcomes(self, mutant, first):
        """Return the outcomes of these cases on a mutant, and of others that can differ, as far as time allows."""
        reached = self.reached(mutant.sound)
        others = sorted(set(reached.candidates(mutant)).difference(first), key=lambda case: reached.seconds[case])
        yield from self.again(mutant, first)
        end = time.monotonic() + LONG
        for case, outcome in self.again(mutant, others):
            yield case, outcome
            if time.monotonic() > end:
                return

    def again(self, mutant, cases):
        """Return the outcomes of these cases on a mutant."""
        patience = self.reached(mutant.sound).patience
        return outcomes(mutant, {case: patience[case] for case in cases})

    def of(self, mutant, known=()):
        """Return all cases that kill it each time, known ones first; of a mutant that hangs, those done in time.

        What fails on the sound backend at the same time says nothing: the machine may be busy.
        """
        able = set(self.reached(mutant.sound).candidates(mutant))
        first = list(dict.fromkeys([mutant.case, *sorted(able.intersection(known))]))
        found = [case for case, outcome in self.outcomes(mutant, first) if kills(mutant, outcome)]
        found = [case for case, outcome in self.again(mutant, found) if kills(mutant, outcome)]
        return sorted(case for case, outcome in self.again(mutant.sound, found) if outcome in SOUND)


def kills(mutant, outcome):
    """Return whether a trial with this outcome killed the mutant. A driver that does not run at all proves nothing."""
    return outcome not in SOUND and (bool(mutant.patches) or not outcome.startswith("PluginError"))


@contextmanager
def _locked(path, *, wait):
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


# the stored matrix -----------------------------------------------------------------------------------------


def stored():
    """Return the kills of the stored matrix, by the name of the mutant."""
    return {name: _expanded(sections) for name, sections in json.loads(STORED.read_text()).items()}


def write(found):
    """Store what kills each mutant: sorted, and a line for each section of the contract."""
    lines = {name: _folded(cases) for name, cases in sorted(found.items())}
    STORED.write_text(json.dumps(lines, indent=1) + "\n")


def proofs(found):
    """Return for each mutant the cases that each run checks: each case with the mutants that the fewest cases kill."""
    counts = {name: len(cases) for name, cases in found.items()}
    chosen = {name: [] for name in found}
    for case in BY_ID:
        killed = sorted((name for name, cases in found.items() if case in cases), key=counts.__getitem__)
        for name in killed[:PROOFS]:
            chosen[name].append(case)
    return chosen


def _folded(cases):
    """Return ``{"CON": "01 02"}`` for ``["CON-01", "CON-02"]``."""
    sections = groupby(sorted(cases), lambda case: case.partition("-")[0])
    return {section: " ".join(case.partition("-")[2] for case in each) for section, each in sections}


def _expanded(sections):
    return [f"{section}-{number}" for section, numbers in sections.items() for number in numbers.split()]
