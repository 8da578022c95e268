"""``python -m mutants.random_programs FILE``, in the folder ``tests``, counts the mutants that random programs kill.

The result of each mutant is a line of the file: the rule that was found broken, or "survives". Mutants that the file
has already are not run again, so an interrupted run can be continued. With names of mutants, only those are run.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from mutants import MUTANTS, SOUND
from mutants.child_processes import random_programs

PROGRAMS = 200
SEED = 7


def main(file, names):
    """Run what is missing, and print the counts."""
    path = Path(file)
    known = dict(line.split(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    kinds = dict.fromkeys([*SOUND, *MUTANTS])
    for kind in kinds:
        if (kind.__name__ in names) if names else kind.__name__ not in known:
            known[kind.__name__] = random_programs(kind, PROGRAMS, SEED)
            path.write_text("".join(f"{name} {outcome}\n" for name, outcome in known.items()))
            print(kind.__name__, known[kind.__name__], flush=True)  # noqa: T201
    outcomes = Counter(known[each.__name__] for each in MUTANTS if each.__name__ in known)
    print(f"{outcomes.total() - outcomes['survives']} of {outcomes.total()} mutants die", outcomes)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
