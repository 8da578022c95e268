"""The ``mqplug`` command: its subcommands, and how their errors are shown.

Exit codes: 0 done, 1 an error, 2 wrong usage, 3 nothing was read or a group lags behind, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

import mqplug
from mqplug.cli._commands.completion import completion
from mqplug.cli._commands.demo import demo
from mqplug.cli._commands.docs import docs
from mqplug.cli._commands.doctor import doctor
from mqplug.cli._commands.plugins import plugins
from mqplug.cli._commands.schema import schema
from mqplug.cli._commands.test import test
from mqplug.cli._commands.topics import topics
from mqplug.cli._commands.watermarks import watermarks
from mqplug.cli._error_text import DEBUG_VARIABLE, error_line
from mqplug.cli._exit_codes import FAILED, INTERRUPTED
from mqplug.cli._plugin_commands import CommandGroup


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(mqplug.__version__, prog_name="mqplug")
def app() -> None:
    """One API over message logs: Kafka, Pulsar, and RocksMQ, a log embedded in your process.

    A URL names a backend and its address, as in rocksmq:///path or kafka://host:9092. A configuration file, such as
    mqplug.toml, can replace it.
    """


for _verb in (completion, demo, docs, doctor, plugins, schema, test, topics, watermarks):
    app.add_command(_verb)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code."""
    try:
        code = app.main(list(arguments), prog_name="mqplug", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        click.echo(f"error: {error_line(error)}", err=True)
        return FAILED
    return code if isinstance(code, int) else 0
