"""Faults inside RocksMQ, at moments that no test can choose from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqplug_rocksmq._driver import shared_group
from mqplug_rocksmq._driver.shared_group import SharedGroup
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._engine.rocks import Changes, Pages


class Gate:
    """Stops the writes of all stores of this process while it is shut."""

    def __init__(self) -> None:
        self.shut = False

    def stop(self, patched: pytest.MonkeyPatch) -> None:
        """Put the gate in front of RocksDB."""
        write, takes_writes = Pages.write, Pages.takes_writes

        def write_or_stop(pages: Pages, changes: Changes) -> None:
            if self.shut:
                raise WritesStopped
            write(pages, changes)

        patched.setattr(Pages, "write", write_or_stop)
        patched.setattr(Pages, "takes_writes", lambda pages: not self.shut and takes_writes(pages))


def offer_for(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make shared groups offer messages to a member for these seconds."""
    monkeypatch.setattr(shared_group, "OFFER_S", seconds)


def after_taking(monkeypatch: pytest.MonkeyPatch, wanted: tuple[int, ...], do: Callable[[], None]) -> None:
    """Call this once, just after a member has taken the offered message at these coordinates."""
    take = SharedGroup.take_offered

    def taking(group: SharedGroup, member: Any, shared: Any, upcoming: Any) -> bool:
        taken = take(group, member, shared, upcoming)
        if upcoming.coordinates == wanted:
            monkeypatch.setattr(SharedGroup, "take_offered", take)
            do()
        return taken

    monkeypatch.setattr(SharedGroup, "take_offered", taking)
