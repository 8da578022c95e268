"""The command line of the benchmarks: ``python -m benchmarks SUITE``."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

from benchmarks._contests import measure
from benchmarks._findings import findings_as_data, print_finding
from benchmarks._markdown import contests_as_markdown, findings_as_markdown
from benchmarks._report import UNITS, contests_as_data, describe_machine, machine_as_data, print_contest
from benchmarks._three_report import (
    describe_run,
    results_as_chart,
    results_as_data,
    results_as_table,
    write_table_into,
)
from benchmarks._three_workload import BackendResult

ROCKSMQ_SUITES = [
    "rocksmq_batches",
    "rocksmq_bulk",
    "rocksmq_sends",
    "rocksmq_wakeup",
    "rocksmq_curves",
    "rocksmq_queue",
]
PARTITIONS_SUITE = "kafka_partitions"
SUITES = {
    **{name: [name] for name in ("core", "kafka", "pipes", "pulsar", "spark", PARTITIONS_SUITE, *ROCKSMQ_SUITES)},
    "rocksmq": ROCKSMQ_SUITES,
}
"""The modules of each suite of contests. Each module defines ``contests``."""
FINDING_SUITES = {"rocksmq_large": 10.0, "kafka_memory": 1.0, "pulsar_partitions": 0.1}
"""The suites that yield findings, not contests, and how many GiB they write."""
THREE_SUITE = "three"
"""The suite that runs one workload on all backends."""


def main() -> None:
    """Run one suite and print its results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=[*SUITES, *FINDING_SUITES, THREE_SUITE])
    parser.add_argument("--quick", action="store_true", help="use few messages and rounds, just to check that it runs")
    parser.add_argument("--rounds", type=int, help="number of rounds (default 7, 3 of three; 2 with --quick)")
    parser.add_argument("--only", default="", metavar="TEXT", help="run only contests whose name contains this text")
    defaults = ", ".join(f"{gib:g} of {name}" for name, gib in FINDING_SUITES.items())
    parser.add_argument("--gib", type=float, help=f"GiB to write (default {defaults}; 0.05 with --quick)")
    parser.add_argument("--partitions", type=int, help=f"partitions of {PARTITIONS_SUITE} (default 2000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables to this file as Markdown")
    parser.add_argument("--chart", type=Path, metavar="FILE", help=f"write a chart of {THREE_SUITE} as SVG")
    parser.add_argument("--table-in", type=Path, metavar="FILE", help=f"write the table of {THREE_SUITE} into a page")
    given = parser.parse_args()
    if given.partitions is not None and given.suite != PARTITIONS_SUITE:
        parser.error(f"--partitions is for {PARTITIONS_SUITE}")
    if given.suite != THREE_SUITE and (given.chart or given.table_in):
        parser.error(f"--chart and --table-in are for {THREE_SUITE}")
    print(describe_machine())
    if given.suite == THREE_SUITE:
        data, page = _run_three(given)
    else:
        data, page = _run_findings(given) if given.suite in FINDING_SUITES else _run_contests(given)
    if given.json:
        given.json.write_text(json.dumps({"suite": given.suite, **machine_as_data(), **data}, indent=2) + "\n")
    if given.markdown:
        given.markdown.write_text(page)


def _run_contests(given: argparse.Namespace) -> tuple[dict[str, Any], str]:
    print(UNITS)
    results, rounds = [], given.rounds or (2 if given.quick else 7)
    options = {} if given.partitions is None else {"partitions": given.partitions}
    for module in SUITES[given.suite]:
        with importlib.import_module(f"benchmarks.{module}").contests(quick=given.quick, **options) as contests:
            results += measure([contest for contest in contests if given.only in contest.name], rounds, print_contest)
    return {"contests": contests_as_data(results)}, contests_as_markdown(given.suite, results, rounds)


def _run_findings(given: argparse.Namespace) -> tuple[dict[str, Any], str]:
    suite = importlib.import_module(f"benchmarks.{given.suite}")
    gib = given.gib or (0.05 if given.quick else FINDING_SUITES[given.suite])
    found = []
    for each in suite.findings(gib=gib, quick=given.quick):
        found.append(each)
        print_finding(each)
    return {"findings": findings_as_data(found)}, findings_as_markdown(given.suite, found)


def _run_three(given: argparse.Namespace) -> tuple[dict[str, Any], str]:
    suite = importlib.import_module(f"benchmarks.{THREE_SUITE}")
    rounds = given.rounds or (2 if given.quick else suite.ROUNDS)
    results: list[BackendResult] = []
    for found in suite.results(rounds=rounds, quick=given.quick):
        results += found
        print(results_as_table(found), flush=True)
    run, table = describe_run(rounds, suite.brokers()), results_as_table(results)
    if given.chart:
        given.chart.write_text(results_as_chart(results, run).svg())
    if given.table_in:
        write_table_into(given.table_in, run, table)
    return {"results": results_as_data(results)}, f"# `python -m benchmarks {THREE_SUITE}`\n\n{table}\n{run}\n"


if __name__ == "__main__":
    main()
