"""The command line ``mqplug``. Needs ``pip install 'mqplug[cli]'``."""

from __future__ import annotations

import sys
from typing import NoReturn

from mqplug.cli._exit_codes import INTERRUPTED, TERMINATED
from mqplug.cli._interrupts import was_terminated


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        from mqplug.cli._app import run_program

        code = run_program(sys.argv[1:])
    except KeyboardInterrupt:
        code = TERMINATED if was_terminated() else INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("error: the command line needs click. Run pip install 'mqplug[cli]'")
    sys.exit(code)
