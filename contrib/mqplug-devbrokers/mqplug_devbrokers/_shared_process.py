"""The process of a broker that another process owns, and that several use: they may connect to it, not disturb it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SharedProcess:
    """Has the place of a `BrokerProcess` in a server that is attached to one which runs already."""

    owned = False

    def __init__(self, handle: Mapping[str, Any]) -> None:
        self.directory = Path(handle["directory"])
        self._pid = int(handle["pid"])

    def start(self, command: list[str], log: Path) -> NoReturn:
        """Refuse."""
        refuse()

    def signal(self, number: int) -> NoReturn:
        """Refuse."""
        refuse()

    def status(self) -> int | None:
        """Return None while the process exists. What it ended with is not known."""
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return -1
        return None

    def close(self) -> None:
        """Leave it to its owner."""


def refuse() -> NoReturn:
    """Raise the error of a call that would disturb others."""
    raise BrokerError(
        "all workers of this test run share this server, so no test may disturb it: start one for the test, "
        "such as `with KafkaServer() as server`, or run without pytest-xdist"
    )
