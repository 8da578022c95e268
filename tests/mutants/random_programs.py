"""``python -m mutants.random_programs FILE``, in the folder ``tests``, counts the mutants that random programs kill.

These are the mutants of drivers, and what else is named. The result of each is a line of the file: the rule that was
found broken, or "survives". Mutants that the file has already are not run again, so an interrupted run can be
continued. What differs from ``mutants.survivors`` is named at the end.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from mutants import MUTANTS, SOUND
from mutants.child_processes import HUNG, random_programs
from mutants.survivors import DRIVERS, SURVIVORS

PROGRAMS = 200
SEEDS = (7, 8, 9)
ALIVE = ("survives", HUNG)  # a run without an end proves nothing: the machine may be busy


def killed_by(kind, seeds=SEEDS):
    """Return the rule that is found broken with the first of the seeds that finds one, or "survives"."""
    outcome = HUNG
    for seed in seeds:
        outcome = random_programs(kind, PROGRAMS, seed)
        if outcome not in ALIVE:
            break
    return outcome


def main(file, names):
    """Run what is missing, and print the counts."""
    path = Path(file)
    known = dict(line.split(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    for kind in dict.fromkeys([*SOUND, *MUTANTS] if names else [*SOUND, *DRIVERS]):
        if (kind.__name__ in names) if names else kind.__name__ not in known:
            known[kind.__name__] = killed_by(kind, SEEDS[:1])
            path.write_text("".join(f"{name} {outcome}\n" for name, outcome in known.items()))
            print(kind.__name__, known[kind.__name__], flush=True)  # noqa: T201
    outcomes = {each.__name__: known[each.__name__] for each in DRIVERS if each.__name__ in known}
    alive = {name for name, outcome in outcomes.items() if outcome in ALIVE}
    print(f"{len(outcomes) - len(alive)} of {len(outcomes)} mutants die", Counter(outcomes.values()))  # noqa: T201
    print("alive without a reason:", *sorted(alive - SURVIVORS.keys()))  # noqa: T201
    print("dead with a reason to live:", *sorted(SURVIVORS.keys() & outcomes.keys() - alive))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
