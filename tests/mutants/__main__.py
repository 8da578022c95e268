"""``python -m mutants``, in the folder ``tests``, writes the stored matrix anew.

The cases that are known to kill a mutant run first, then the others that can differ; a kill is stored if it happens
twice, and the sound backend passes. With names of mutants, only those are looked at again.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants import MUTANTS
from mutants.matrix import STORED, Kills, stored, write

WORKERS = 3


def main(names):
    """Measure, write, and print the result."""
    wanted = [each for each in MUTANTS if not names or each.__name__ in names]
    known = stored() if STORED.exists() else {}
    there = {each.__name__ for each in MUTANTS}
    found = {name: cases for name, cases in known.items() if name in there}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        kills = Kills(Path(folder))
        for sound in {each.sound for each in wanted}:
            kills.reached(sound)
        measured = pool.map(lambda each: kills.of(each, found.get(each.__name__, ())), wanted)
        for mutant, cases in zip(wanted, measured, strict=True):
            found[mutant.__name__] = cases
            print(mutant.__name__, *cases or ["survives"], flush=True)  # noqa: T201
            write(found)


if __name__ == "__main__":
    main(sys.argv[1:])
