"""Requests of client processes to the owner of a store: one call each, on the table of operations and beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mqplug_rocksmq._care.backup import back_up_store
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._processes.codec import error_to_wire, from_wire, to_wire
from mqplug_rocksmq._processes.forwarding import OPERATIONS
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.session import OwnerServices
from mqplug_rocksmq._processes.transaction_requests import COMMIT_TRANSACTION, answer_commit
from mqplug_rocksmq._store.deduplication import OnceRequest
from mqplug_rocksmq._store.store import Store


def answer_request(server: OwnerServices, request: FrameHeader, body: bytes) -> FrameHeader:
    """Return the answer to a request. An error is an answer too: the client raises it."""
    try:
        name = request["call"]
        if care := _CARE_REQUESTS.get(name):
            return care(server.store, request)
        if name == COMMIT_TRANSACTION:
            return answer_commit(server, request, body)
        arguments, timeout = from_wire(request["arguments"]), float(request["timeout"])
        if name in OPERATIONS:
            return {"answer": to_wire(getattr(server.store_connection, name)(*arguments, timeout))}
        return {"answer": to_wire(_CALLS[name](server, *arguments, timeout))}
    except Exception as error:  # noqa: BLE001 - it is raised at the other side
        return {"error": error_to_wire(error)}


def _administer(server: OwnerServices, action: Any, name: str, again: bool, timeout: float) -> Any:
    return server.store_connection.administer(action, timeout, OnceRequest(bytes.fromhex(name), again))


def _commit(server: OwnerServices, token: str, positions: Any, timeout: float) -> None:
    server.consumers.get(token).commit(positions, timeout)


def _settle(server: OwnerServices, token: str, settled: Any, timeout: float) -> int:
    late: int = server.consumers.get(token).settle(settled, timeout)
    return late


_CALLS: Final[Mapping[str, Callable[..., Any]]] = {"administer": _administer, "commit": _commit, "settle": _settle}


def _stats(store: Store, _: FrameHeader) -> FrameHeader:
    return {"stats": statistics(store).as_json()}


def _backup(store: Store, request: FrameHeader) -> FrameHeader:
    back_up_store(store, Path(request["path"]))
    return {}


def _compact(store: Store, _: FrameHeader) -> FrameHeader:
    store.compact()
    return {}


_CARE_REQUESTS: Final[Mapping[str, Callable[[Store, FrameHeader], FrameHeader]]] = {
    "stats": _stats,
    "backup": _backup,
    "compact": _compact,
}
