"""The command line of the benchmarks: ``python -m benchmarks SUITE``."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._all import MINUTES, ROUNDS, run_all, suites_of_all
from benchmarks._contests import ContestResult, measure
from benchmarks._figures import FOLDER, contests_as_figures, findings_as_figures, three_as_figures, write_figures
from benchmarks._findings import findings_as_data, print_finding
from benchmarks._machine import describe_machine, installed_versions, machine_as_data
from benchmarks._markdown import contests_as_markdown, findings_as_markdown
from benchmarks._report import UNITS, contests_as_data, print_contest
from benchmarks._suites import GROUPS, SUITES, Suite
from benchmarks._three_report import (
    describe_run,
    results_as_chart,
    results_as_data,
    results_as_table,
    write_table_into,
)
from benchmarks._three_workload import BackendResult

ALL, THREE, PARTITIONS = "all", "three", "kafka_partitions"


def main() -> None:
    """Run one suite, or all, and print the results."""
    given = _parsed()
    print(describe_machine())
    if given.suite == ALL:
        sys.exit(1 if _run_all(given) else 0)
    given.end = math.inf if given.minutes is None else time.monotonic() + given.minutes * 60
    suites = [SUITES[name] for name in GROUPS.get(given.suite, [given.suite])]
    run = {"contests": _run_contests, "findings": _run_findings, "three": _run_three}[suites[0].kind]
    data, page = run(given, suites)
    if given.json:
        head = {"suite": given.suite, "machine": machine_as_data(), "versions": installed_versions(_packages(suites))}
        given.json.write_text(json.dumps({**head, **data}, indent=2) + "\n")
    if given.markdown:
        given.markdown.write_text(page)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=[ALL, *GROUPS, *SUITES])
    parser.add_argument("--quick", action="store_true", help="use few messages and rounds, just to check that it runs")
    rounds = f"most rounds of a contest (default 7, {ROUNDS} of {THREE} and {ALL}; 2 with --quick)"
    parser.add_argument("--rounds", type=int, help=rounds)
    minutes = f"leave out rounds, but no contest, that do not fit into this time (default {MINUTES:g} of {ALL})"
    parser.add_argument("--minutes", type=float, help=minutes)
    parser.add_argument("--only", default="", metavar="TEXT", help="run only contests whose name contains this text")
    parser.add_argument("--judged", action="store_true", help="run only contests that have an aim")
    defaults = ", ".join(f"{suite.gib:g} of {suite.name}" for suite in SUITES.values() if suite.gib)
    parser.add_argument("--gib", type=float, help=f"GiB to write (default {defaults}; 0.05 with --quick)")
    parser.add_argument("--partitions", type=int, help=f"partitions of {PARTITIONS} (default 2000)")
    figures = f"write a summary of each suite to this folder (default benchmarks/figures of {ALL} without --quick)"
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help=figures)
    samples = f"write every sample to this file as JSON; a folder, with a file of each suite, for {ALL}"
    parser.add_argument("--json", type=Path, metavar="FILE", help=samples)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables to this file as Markdown")
    parser.add_argument("--chart", type=Path, metavar="FILE", help=f"write a chart of {THREE} as SVG")
    parser.add_argument("--table-in", type=Path, metavar="FILE", help=f"write the table of {THREE} into a page")
    given = parser.parse_args()
    if given.partitions is not None and given.suite != PARTITIONS:
        parser.error(f"--partitions is for {PARTITIONS}")
    if given.suite != THREE and (given.chart or given.table_in):
        parser.error(f"--chart and --table-in are for {THREE}")
    if given.suite == ALL and (given.only or given.judged or given.gib or given.markdown):
        parser.error(f"--only, --judged, --gib and --markdown are for one suite, not for {ALL}")
    return given


def _run_all(given: argparse.Namespace) -> dict[str, str]:
    folder = given.figures or (None if given.quick else FOLDER)
    if given.json:
        given.json.mkdir(parents=True, exist_ok=True)

    def command_of(suite: Suite, minutes: float) -> list[str]:
        command = [sys.executable, "-m", "benchmarks", suite.name]
        command += ["--quick"] if given.quick else ["--minutes", f"{max(0.0, minutes):.2f}"]
        command += ["--rounds", str(given.rounds or (2 if given.quick else ROUNDS))]
        command += ["--judged"] if suite.judged and not given.quick else []
        command += ["--figures", str(folder.absolute())] if folder else []
        return command + (["--json", str(given.json.absolute() / f"{suite.name}.json")] if given.json else [])

    return run_all(list(suites_of_all(quick=given.quick)), given.minutes or MINUTES, command_of)


def _run_contests(given: argparse.Namespace, suites: Sequence[Suite]) -> tuple[dict[str, Any], str]:
    print(UNITS)
    results: list[ContestResult] = []
    rounds = given.rounds or (2 if given.quick else 7)
    options = {} if given.partitions is None else {"partitions": given.partitions}
    for suite in suites:
        module = importlib.import_module(f"benchmarks.{suite.name}")
        with module.contests(quick=given.quick, **options) as contests:
            chosen = [each for each in contests if given.only in each.name and (each.judged or not given.judged)]
            found = measure(chosen, rounds, print_contest, given.end)
            omitted = [each for each in contests if each not in chosen]
        results += found
        _write(given, suite, contests_as_figures(found, omitted))
    return {"contests": contests_as_data(results)}, contests_as_markdown(
        given.suite, _packages(suites), results, rounds
    )


def _run_findings(given: argparse.Namespace, suites: Sequence[Suite]) -> tuple[dict[str, Any], str]:
    (suite,) = suites
    module = importlib.import_module(f"benchmarks.{suite.name}")
    found = []
    for each in module.findings(gib=given.gib or (0.05 if given.quick else suite.gib), quick=given.quick):
        found.append(each)
        print_finding(each)
    _write(given, suite, findings_as_figures(found))
    return {"findings": findings_as_data(found)}, findings_as_markdown(suite, found)


def _run_three(given: argparse.Namespace, suites: Sequence[Suite]) -> tuple[dict[str, Any], str]:
    (suite,) = suites
    module = importlib.import_module(f"benchmarks.{suite.name}")
    rounds = given.rounds or (2 if given.quick else ROUNDS)
    results: list[BackendResult] = []
    for found in module.results(rounds=rounds, quick=given.quick, end=given.end):
        results += found
        print(results_as_table(found), flush=True)
    run, table = describe_run(suite, rounds), results_as_table(results)
    if given.chart:
        given.chart.write_text(results_as_chart(results, run).svg())
    if given.table_in:
        write_table_into(given.table_in, run, table)
    _write(given, suite, three_as_figures(results))
    return {"results": results_as_data(results)}, f"# `python -m benchmarks {suite.name}`\n\n{table}\n{run}\n"


def _write(given: argparse.Namespace, suite: Suite, figures: dict[str, Any]) -> None:
    if given.figures:
        write_figures(given.figures, suite, figures, quick=given.quick)


def _packages(suites: Sequence[Suite]) -> list[str]:
    return list(dict.fromkeys(package for suite in suites for package in suite.packages))


if __name__ == "__main__":
    main()
