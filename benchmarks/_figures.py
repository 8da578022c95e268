"""The published figures of a suite: a summary of its results as JSON, short enough to review in a diff."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from benchmarks._contests import Contest, ContestResult, Side, TurnSample
from benchmarks._findings import BenchmarkFinding
from benchmarks._machine import broker_versions, installed_versions, machine_as_data
from benchmarks._report import judge_aims
from benchmarks._suites import Suite
from benchmarks._three_workload import BackendResult

FOLDER = Path(__file__).with_name("figures")
"""Where the published figures are stored, from which the docs are built."""


def write_figures(folder: Path, suite: Suite, figures: Mapping[str, Any], *, quick: bool) -> None:
    """Write a suite's figures with the date, the machine and the versions."""
    data = {
        "suite": suite.name,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "quick": quick,
        "machine": machine_as_data(),
        "versions": {**installed_versions(suite.packages), **broker_versions(suite.brokers)},
        **figures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite.name}.json").write_text(as_text(data) + "\n")


def as_text(value: Any, indent: str = "") -> str:
    """Return JSON with one line for each innermost list or object."""
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    if not any(isinstance(each, dict | list) and each for each in nested):
        return json.dumps(value, ensure_ascii=False)
    more = f"{indent}  "
    if isinstance(value, dict):
        lines = [f"{more}{json.dumps(name)}: {as_text(each, more)}" for name, each in value.items()]
    else:
        lines = [more + as_text(each, more) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([begin, ",\n".join(lines), indent + end])


def contests_as_figures(results: Sequence[ContestResult], omitted: Sequence[Contest]) -> dict[str, Any]:
    """Return the sides and aims of each contest, and the names of contests that were not run."""
    return {"contests": list(map(_contest, results)), "omitted": [contest.name for contest in omitted]}


def findings_as_figures(findings: Sequence[BenchmarkFinding]) -> dict[str, Any]:
    """Return each finding with its limit."""
    return {"findings": [{**attrs.asdict(found), "value": _short(found.value)} for found in findings]}


def three_as_figures(results: Sequence[BackendResult]) -> dict[str, Any]:
    """Return the rates, the CPU time and the latencies of each backend with each workload."""
    return {
        "results": [
            {
                "workload": result.workload.name,
                "backend": result.backend,
                "rounds": len(result.turns),
                "produce_per_s": _short(result.produce_per_s),
                "produce_cpu_us": _short(result.produce_cpu_us),
                "consume_per_s": _short(result.consume_per_s),
                "consume_cpu_us": _short(result.consume_cpu_us),
                "p50_ms": _short(result.latency_ms(0.5)),
                "p99_ms": _short(result.latency_ms(0.99)),
            }
            for result in results
        ]
    }


def _contest(result: ContestResult) -> dict[str, Any]:
    contest = result.contest
    return {
        "name": contest.name,
        "unit": contest.unit,
        "rounds": len(result.samples[contest.ours.name]),
        "sides": [_times(result, contest.ours), *(_rival(result, rival) for rival in contest.rivals)],
        "aims": [
            {"words": aim.words, "rival": aim.rival, "measured": _short(aim.measured), "met": aim.reached}
            for aim in judge_aims(result)
        ],
    }


def _times(result: ContestResult, side: Side) -> dict[str, Any]:
    """Return a side's microseconds for each item: the medians and the best, and the percentiles that it has."""
    samples: list[TurnSample] = result.samples[side.name]
    wall, cpu = [each.wall for each in samples], [each.cpu for each in samples]
    return {
        "name": side.name,
        "words": side.words,
        "wall_us": _short(statistics.median(wall)),
        "best_wall_us": _short(min(wall)),
        "cpu_us": _short(statistics.median(cpu)),
        "best_cpu_us": _short(min(cpu)),
        **{f"{name}_us": _short(value) for name, value in result.percentiles(side).items()},
    }


def _rival(result: ContestResult, rival: Side) -> dict[str, Any]:
    """Return a rival's times, and our speed as a share of its own."""
    ratios = {"speed_ratio": result.speed_ratio(rival), "cpu_ratio": result.processor_ratio(rival)}
    return {**_times(result, rival), **{name: _short(value) for name, value in ratios.items()}}


def _short(value: float) -> float:
    """Return a number with four digits that count."""
    return float(f"{value:.4g}")
