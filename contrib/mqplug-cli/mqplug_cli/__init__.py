"""The command line ``mqplug``."""

from __future__ import annotations

import sys
from typing import NoReturn

from mqplug_cli._exit_codes import INTERRUPTED, TERMINATED
from mqplug_cli._interrupts import was_terminated


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from mqplug_cli._app import run_program

        code = run_program(sys.argv[1:])
    except KeyboardInterrupt:
        code = TERMINATED if was_terminated() else INTERRUPTED
    sys.exit(code)
