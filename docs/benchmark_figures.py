"""The figures of the benchmarks: what each suite compares, and what was measured, from `benchmarks/figures`. The build
of the docs appends them to the page of the benchmarks; `python docs/benchmark_figures.py` prints them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # benchmarks are not installed; appended, so that an installed mqplug comes first

from benchmarks._suites import SUITES, Suite  # noqa: E402

FOLDER = ROOT / "benchmarks" / "figures"
NOT_TAKEN = "not taken"

Figures = Mapping[str, Any]
"""The figures of a suite, as ``benchmarks._figures`` stores them."""


def sections(folder: Path = FOLDER) -> Iterator[str]:
    """Return the lines of the page: all suites in a table, the missed aims, and a section for each suite."""
    taken = {name: json.loads(file.read_text()) for name in SUITES if (file := folder / f"{name}.json").exists()}
    yield from ["## All suites", "", *overview(taken), "", "## Missed aims", "", *missed_aims(taken)]
    for suite in SUITES.values():
        yield from ["", f"## {suite.title}", "", f"`python -m benchmarks {suite.name}`: {suite.compares}", ""]
        yield from rivals(suite, taken.get(suite.name, {}))
        if suite.name in taken:
            yield from [f"{circumstances(taken[suite.name])}", "", *tables(taken[suite.name])]
        else:
            yield f"These figures were {NOT_TAKEN}."


def overview(taken: Mapping[str, Figures]) -> Iterator[str]:
    """Return the table of all suites: when they were taken, and how many of their aims are met."""
    yield from ["| suite | taken | aims met | aims missed |", "|---|---|--:|--:|"]
    for suite in SUITES.values():
        aims = [aim["met"] for _, aim in aims_of(taken.get(suite.name, {}))]
        day = taken[suite.name]["date"] if suite.name in taken else NOT_TAKEN
        missed = f"**{aims.count(False)}**" if False in aims else "0" if aims else ""
        yield f"| {suite.title} | {day} | {aims.count(True) if aims else ''} | {missed} |"


def missed_aims(taken: Mapping[str, Figures]) -> Iterator[str]:
    """Return a list of the missed aims, each with what was measured."""
    missed = [
        f"* {SUITES[name].title}, {contest}: {aim['words']}, measured {number(aim['measured'])}"
        for name, figures in taken.items()
        for contest, aim in aims_of(figures)
        if not aim["met"]
    ]
    yield from missed or ["None of those that were measured." if taken else "Nothing was measured."]


def aims_of(figures: Figures) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return each aim with the name of its contest. The limit of a finding is an aim, too."""
    for contest in figures.get("contests", ()):
        for aim in contest["aims"]:
            yield contest["name"], aim
    for each in figures.get("findings", ()):
        if (most := each["most"]) is not None:
            words = f"at most {most:,g} {each['unit']}".strip()
            yield each["name"], {"words": words, "measured": each["value"], "met": each["value"] <= most}


def rivals(suite: Suite, figures: Figures) -> Iterator[str]:
    """Return a table of the rivals of a suite. Those without figures were not installed."""
    ran = {side["name"] for contest in figures.get("contests", ()) for side in contest["sides"]}
    if suite.rivals:
        yield from ["| rival | does not have |", "|---|---|"]
        for name, lacks in suite.rivals.items():
            yield row(name if name in ran or not ran else f"{name} ({NOT_TAKEN})", lacks)
        yield ""


def circumstances(figures: Figures) -> str:
    """Return the date, the rounds, the machine, the versions, and what was left out."""
    machine, versions = figures["machine"], figures["versions"]
    counts = [each["rounds"] for name in ("contests", "results") for each in figures.get(name, ()) if "rounds" in each]
    rounds = f", rounds of each contest: {' to '.join(map(str, sorted({min(counts), max(counts)})))}" if counts else ""
    sentences = [
        f"{figures['date']}{rounds}",
        f"{machine['processor']}, {machine['processors']} processors, {machine['memory_gib']} GiB of memory",
        f"{machine['system']}, load {machine['load_at_end']} at the end",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
    if figures["quick"]:
        sentences.append("**A trial with few messages, not for comparison**")
    if figures.get("omitted"):
        sentences.append(f"Not run: {plain('; '.join(figures['omitted']))}")
    return "".join(f"{sentence}. " for sentence in sentences).rstrip()


def tables(figures: Figures) -> Iterator[str]:
    """Return the tables of a suite's figures, of whichever kind they are."""
    if contests := figures.get("contests"):
        yield from ["| contest | side | µs | CPU µs | ratio | by CPU | aims |", "|---|---|--:|--:|--:|--:|---|"]
        for contest in contests:
            yield from contest_rows(contest)
    if findings := figures.get("findings"):
        limits = {name: verdict(aim) for name, aim in aims_of(figures)}
        yield from ["| finding | | limit |", "|---|--:|---|"]
        for each in findings:
            yield row(each["name"], f"{each['value']:,} {each['unit']}", limits.get(each["name"], ""))
    if results := figures.get("results"):
        yield from ["| messages | backend | produce: msg/s | CPU µs | consume: msg/s | CPU µs | ms: p50 | p99 |"]
        yield "|---|---|--:|--:|--:|--:|--:|--:|"
        names = ("produce_per_s", "produce_cpu_us", "consume_per_s", "consume_cpu_us", "p50_ms", "p99_ms")
        yield from (row(each["workload"], each["backend"], *(number(each[name]) for name in names)) for each in results)


def contest_rows(contest: Mapping[str, Any]) -> Iterator[str]:
    """Return a row for each side of a contest: ours, which has the contest's name, then the rivals."""
    for place, side in enumerate(contest["sides"]):
        aims = [verdict(aim) for aim in contest["aims"] if aim["rival"] == side["name"] and place]
        ratios = [number(side[name]) if name in side else "" for name in ("speed_ratio", "cpu_ratio")]
        times = [f"{number(side[name])} ({number(side[f'best_{name}'])})" for name in ("wall_us", "cpu_us")]
        name = "" if place else f"**{plain(contest['name'])}**, per {contest['unit']}"
        words = plain(f"{side['name']}: {side['words']}")
        if "p50_us" in side:
            words += f"; p50 {number(side['p50_us'])}, p99 {number(side['p99_us'])}"
        yield row(name, words, *times, *ratios, "; ".join(aims))


def verdict(aim: Mapping[str, Any]) -> str:
    """Return an aim, and whether it is met."""
    return f"{aim['words']}: {'met' if aim['met'] else '**missed**'}"


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"[|*<\[`]", r"\\\g<0>", text)


def number(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(sections()) + "\n")
