"""The command line ``mqplug``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from mqplug_cli._exit_codes import INTERRUPTED, TERMINATED
from mqplug_cli._interrupts import was_terminated

__all__ = ["main", "run_command"]


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line in this process, and return its exit code."""
    from mqplug_cli import _app

    return _app.run_command(arguments)


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from mqplug_cli._app import run_program

        code = run_program(sys.argv[1:])
    except KeyboardInterrupt:
        code = TERMINATED if was_terminated() else INTERRUPTED
    sys.exit(code)
