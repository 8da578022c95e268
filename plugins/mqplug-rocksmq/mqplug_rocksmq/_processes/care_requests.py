"""What other processes may ask the owner of a store to do for its care. Each may take a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mqplug_rocksmq._care.backup import back_up
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._store.store import Store


def _stats(store: Store, _: FrameHeader) -> FrameHeader:
    return {"stats": statistics(store).as_json()}


def _backup(store: Store, request: FrameHeader) -> FrameHeader:
    back_up(store, Path(request["path"]))
    return {}


def _compact(store: Store, _: FrameHeader) -> FrameHeader:
    store.compact()
    return {}


CARE_REQUESTS: Final[Mapping[str, Callable[[Store, FrameHeader], dict[str, Any]]]] = {
    "stats": _stats,
    "backup": _backup,
    "compact": _compact,
}
