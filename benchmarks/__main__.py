"""``python -m benchmarks``."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from benchmarks._paired import measure
from benchmarks._report import as_data, describe_machine, show

SUITES = {
    "core": ["core"],
    "kafka": ["kafka"],
    "rocksmq": ["rocksmq_batches", "rocksmq_sends", "rocksmq_queue"],
    "rocksmq_batches": ["rocksmq_batches"],
    "rocksmq_sends": ["rocksmq_sends"],
    "rocksmq_queue": ["rocksmq_queue"],
}
"""The modules of each suite. Each has ``contests``."""


def main() -> None:
    """Run one suite and print its ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--quick", action="store_true", help="few messages and rounds: to see that it runs")
    parser.add_argument("--rounds", type=int, help="how often each side runs (default 7; 2 when quick)")
    parser.add_argument("--only", default="", help="run only contests whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    given = parser.parse_args()
    print(describe_machine())
    results = []
    for module in SUITES[given.suite]:
        with importlib.import_module(f"benchmarks.{module}").contests(quick=given.quick) as contests:
            chosen = [contest for contest in contests if given.only in contest.name]
            results += measure(chosen, given.rounds or (2 if given.quick else 7), show)
    if given.json:
        given.json.write_text(json.dumps(as_data(given.suite, results), indent=2) + "\n")


if __name__ == "__main__":
    main()
