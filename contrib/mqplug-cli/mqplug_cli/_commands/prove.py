"""``mqplug test``: the contract kit, the history check or random programs on a backend. ``mqplug demo``: a log under
faults.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import click

from mqplug_cli._client_options import ClientOptions, checked_target, timeout_option
from mqplug_cli._exit_codes import FAILED, INTERRUPTED, WRONG_USAGE
from mqplug_cli._interrupts import SIGNALS
from mqplug_cli._places import duration_option

CORPUS = Path("random-programs.jsonl")

OF_CASES = ("only", "workers", "known_failures", "kit", "report", "scale")
EXIT_CODES_OF_PYTEST = {2: INTERRUPTED, 4: WRONG_USAGE, 5: WRONG_USAGE}  # 4: a wrong option, 5: no case selected

INTERRUPTS = 3  # by the user, before the next one kills pytest
INTERRUPT_AGAIN_S, ENDS_WITHIN_S = 3.0, 60.0

# The first Ctrl-C that pytest notices ends it without a traceback. Further ones do not interrupt the deletion of its
# topics; afterwards they end threads that still wait for messages.
RUN_PYTEST = """
import signal, sys
sys.argv[0] = "mqplug test"
try:
    import pytest

    class Noticed:
        def pytest_keyboard_interrupt(self):
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    code = pytest.main(sys.argv[1:], plugins=[Noticed()])
except KeyboardInterrupt:
    code = 2
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(code)
"""

file_type = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("url")
@click.option(
    "--profile", type=click.Choice(["quick", "full", "soak"]), default="full", show_default=True,
    help="quick skips the slow cases, soak runs more of everything.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="IDS", help="Only these cases or groups, such as SEEK-05,WM.")
@click.option("--known-failures", type=file_type, metavar="FILE", help='Expected failures in TOML: SEEK-22 = "why"')
@click.option("--kit", metavar="VERSION", help="Failures of cases newer than this do not fail the run.")
@click.option(
    "--report", type=file_type, multiple=True, metavar="FILE",
    help="Write a report as JSON, or as Markdown to a .md file. May be repeated.",
)  # fmt: skip
@click.option("--scale", type=click.FloatRange(min=0, min_open=True), metavar="FACTOR", help="Multiply all wait times.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Run in N processes.")
@click.option("--seed", type=int, metavar="N", help="Repeat the order and the random choices of this seed.")
@click.option(
    "--history", callback=duration_option, metavar="TIME", help="Run the history check for this long instead."
)
@click.option(
    "--history-file",
    type=file_type,
    metavar="FILE",
    help="Save the history to this file before the search. [default: history-SEED.jsonl, if it shows an anomaly]",
)
@click.option(
    "--random", "random_programs", callback=duration_option, metavar="TIME",
    help="Run random programs for this long instead, each call judged by the rules.",
)  # fmt: skip
@click.option(
    "--corpus", type=file_type, metavar="FILE",
    help=f"Add a program that breaks a rule to this file, and run first those that it has. [default: {CORPUS}]",
)  # fmt: skip
@timeout_option
@click.pass_context
def test(context: click.Context, /, url: str, timeout: float, **options: Any) -> None:
    """Run the contract kit on a backend.

    Each case checks a rule of the contract in its own topics, which it deletes afterwards. With --history, random
    producers, consumers and faults use the backend for that long, such as 60s or 10m; the recorded calls are then
    searched for lost, repeated or out-of-order messages. With --random, programs of random calls run one after the
    other, and each answer is compared with what the rules allow; the first wrong one is shown in a short program.

    Examples:
      $ mqplug test rocksmq:///tmp/mq --only WM-01,WM-02
      $ mqplug test kafka://localhost:9092 --history 2s
      $ mqplug test rocksmq:///tmp/mq --random 2s
    """
    _check(options)
    with ClientOptions(checked_target(url), timeout, {}).open(creates=True) as mq:
        click.echo(f"{mq!r}")
    if options["seed"] is None:
        options["seed"] = random.randrange(2**31)  # noqa: S311  no secret
    if options["random_programs"] is not None:
        context.exit(_run_programs(url, options))
    context.exit(_run_cases(url, options) if options["history"] is None else _search_history(url, options))


def _check(options: dict[str, Any]) -> None:
    """Reject invalid options before connecting."""
    if find_spec("mqplug_testing") is None:
        raise click.UsageError("the contract kit is not installed. Run pip install 'mqplug[testing]'")
    for name, option in (("history", "history"), ("random_programs", "random")):
        if options[name] is not None and (unused := [each for each in OF_CASES if options[each]]):
            raise click.UsageError(f"--{unused[0].replace('_', '-')} is for cases, and --{option} runs none.")
    if None not in (options["history"], options["random_programs"]):
        raise click.UsageError("--history and --random are two different runs: pass one of them.")
    if options["corpus"] is not None and options["random_programs"] is None:
        raise click.UsageError("--corpus is for random programs: pass --random.")
    if options["only"] or options["kit"] or options["known_failures"]:
        from mqplug_testing import check_options

        try:
            check_options(options["only"], options["kit"], options["known_failures"])
        except ValueError as error:
            raise click.UsageError(str(error)) from None


def _run_cases(url: str, options: dict[str, Any]) -> int:
    """Run the cases in a separate process, which loads pytest before mqplug."""
    command = [sys.executable, "-c", RUN_PYTEST, *_arguments(url, options)]
    click.echo(f"the order is --seed {options['seed']}")
    process = subprocess.Popen(command, process_group=0)  # noqa: S603  our own command
    try:
        code = process.wait()
    except KeyboardInterrupt:  # with or without a terminal, pytest and its workers get it only from here
        _interrupt(process)
        raise
    return EXIT_CODES_OF_PYTEST.get(code, min(code, FAILED))


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt pytest, which then deletes its topics. A library may swallow a Ctrl-C, so it is repeated.

    Each further Ctrl-C of the user is passed on at once, and the last one kills pytest. So does ``ENDS_WITHIN_S``.
    """
    left = [signal.SIGINT] * INTERRUPTS
    end = time.monotonic() + ENDS_WITHIN_S

    def send(number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def pass_on(*_: object) -> None:
        send(left.pop() if left else signal.SIGKILL)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    pass_on()
    while process.returncode is None:
        try:
            process.wait(INTERRUPT_AGAIN_S)
        except subprocess.TimeoutExpired:
            send(signal.SIGINT if time.monotonic() < end else signal.SIGKILL)
    for number, handler in before.items():
        signal.signal(number, handler)


def _arguments(url: str, options: dict[str, Any]) -> Iterator[str]:
    yield from ("-c", "/dev/null", "-q", "-rN", "-p", "no:cacheprovider", "--pyargs", "mqplug_testing.contract")
    if options["workers"]:
        yield from ("-n", str(options["workers"]))
    if not sys.stdout.isatty():
        yield "--mqplug-lines"
    for name in ("profile", "known_failures", "kit", "scale", "seed", "only", "report"):
        value = options[name]
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                yield f"--mqplug-{name.replace('_', '-')}={each}"
    yield f"--mqplug-url={url}"


def _search_history(url: str, options: dict[str, Any]) -> int:
    from mqplug_testing import check_history, harness_for

    click.echo(f"the history runs for {options['history']:g} s with --seed {options['seed']}, and is then searched")
    with harness_for(url) as harness:
        verdict = check_history(harness, seconds=options["history"], seed=options["seed"], keep=options["history_file"])
    click.echo(str(verdict))
    if not verdict.anomalies:
        return 0
    if options["history_file"] is None:
        kept = Path(f"history-{options['seed']}.jsonl")
        verdict.history.save(kept)
        click.echo(f"the history is in {kept}, and its anomalies are listed above")
    return FAILED


def _run_programs(url: str, options: dict[str, Any]) -> int:
    from mqplug_testing import UnreadableCorpus, check_programs, harness_for

    click.echo(f"random programs run for {options['random_programs']:g} s with --seed {options['seed']}")
    corpus: Path = options["corpus"] or CORPUS
    with harness_for(url) as harness:
        try:
            findings = check_programs(harness, options["random_programs"], options["seed"], corpus=corpus)
        except UnreadableCorpus as error:
            raise click.UsageError(str(error)) from None
    click.echo(str(findings))
    if findings.failure is None:
        return 0
    click.echo(findings.failure.program(url))
    click.echo(f"\nthe next run repeats this program first: it is in {corpus}")
    return FAILED


@click.command()
@click.option("--url", help="Use this backend, such as kafka://host:9092, and delete the topic afterwards.")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10, show_default=True, help="Approximate duration.")
@click.pass_context
def demo(context: click.Context, url: str | None, seconds: float) -> None:
    """Exercise a log under faults, and check each message.

    It sends messages, shares the work between two members of a group, kills a sender midway, reopens the log and seeks
    back; then it counts lost, repeated and out-of-order messages. Without --url, it runs on RocksMQ in a temporary
    directory and needs no server.

    Examples:
      $ mqplug demo --seconds 2
      $ mqplug demo --seconds 2 --url kafka://localhost:9092
    """
    from mqplug_cli._demo import DemoRun

    with _demo_url(url) as demo_url:
        outcome = DemoRun(demo_url, seconds, click.echo).run()
    click.echo(str(outcome.findings))
    if outcome.findings.clean and not outcome.problems:
        click.echo("verdict     good: every acknowledged message was received once, and in order")
        return
    click.echo(f"verdict     FAILED: {'; '.join([str(outcome.findings), *outcome.problems])}")
    context.exit(1)


@contextmanager
def _demo_url(url: str | None) -> Iterator[str]:
    """Yield the given URL, or the URL of a temporary store."""
    if url is not None:
        yield url
        return
    with TemporaryDirectory(prefix="mqplug-demo-", ignore_cleanup_errors=True) as directory:
        yield f"rocksmq://{quote(directory)}/store"
