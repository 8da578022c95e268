"""The ``mqplug`` command: runs a command line and returns its exit code.

Exit codes: 0 done, 1 an error, 2 wrong usage, 3 nothing was read or a group lags, 130 interrupted, 141 the reader of
the output has gone, 143 terminated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

import mqplug
from mqplug_cli._error_text import DEBUG_VARIABLE, error_line
from mqplug_cli._exit_codes import FAILED, INTERRUPTED, OUTPUT_CLOSED, TERMINATED
from mqplug_cli._interrupts import raise_interrupts, was_terminated
from mqplug_cli._verbs import CommandGroup


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(mqplug.__version__, prog_name="mqplug")
@click.option("--context", "context_name", metavar="NAME", help="Use this context of mqplug.toml, as after the verb.")
def app(context_name: str | None) -> None:
    """One API over message logs: Kafka, Pulsar, and RocksMQ, a log embedded in your process.

    The first argument of most verbs is a URL, which names a backend and its address: rocksmq:///path or
    kafka://host:9092. Without it, the chosen context, the environment or mqplug.toml decides.
    """


def run_program(arguments: Sequence[str]) -> int:
    """Run a command line as the main program, and return its exit code. SIGTERM ends it as Ctrl-C does."""
    raise_interrupts()
    return run_command(arguments)


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit code."""
    try:
        code = app.main(list(arguments), prog_name="mqplug", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except SystemExit as end:  # raised by click after completion, or because the reader of the output has gone
        return OUTPUT_CLOSED if end.code == FAILED else 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except Exception as error:
        if _came_of_interrupt(error):
            return _interrupted()
        if os.environ.get(DEBUG_VARIABLE):
            raise
        click.echo(f"error: {error_line(error)}", err=True)
        return FAILED
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    return TERMINATED if was_terminated() else INTERRUPTED


def _came_of_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error, as it does within Python's waits, which then lack their lock."""
    causes = [each for each in (error.__cause__, error.__context__) if each is not None]
    return isinstance(error, KeyboardInterrupt) or any(map(_came_of_interrupt, causes))
