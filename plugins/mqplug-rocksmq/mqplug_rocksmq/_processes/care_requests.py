"""What other processes may ask the owner of a store to do for its care. Each may take a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mqplug_rocksmq._care.backup import back_up
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._processes.frames import Header
from mqplug_rocksmq._store.store import Store


def _stats(store: Store, _: Header) -> Header:
    return {"stats": statistics(store).as_json()}


def _backup(store: Store, request: Header) -> Header:
    back_up(store, Path(request["path"]))
    return {}


def _compact(store: Store, _: Header) -> Header:
    store.compact()
    return {}


CARE: Final[Mapping[str, Callable[[Store, Header], dict[str, Any]]]] = {
    "stats": _stats,
    "backup": _backup,
    "compact": _compact,
}
