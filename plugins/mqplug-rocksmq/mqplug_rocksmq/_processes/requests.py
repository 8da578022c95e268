"""Requests of client processes to the owner of a store: one call each, on the table of operations and beside it.

A new operation of ``StoreConnection`` gets one line in the table. All client processes then have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from mqplug_rocksmq._care.backup import back_up_store
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.codec import error_to_wire, from_wire, to_wire
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.owner_services import OwnerServices
from mqplug_rocksmq._processes.transaction_requests import COMMIT_TRANSACTION, answer_commit
from mqplug_rocksmq._store.deduplication import OnceRequest
from mqplug_rocksmq._store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

OPERATIONS: Final[set[str]] = set()
"""The names of the operations in the table."""


def _forwarded(
    operation: Callable[Concatenate[StoreConnection, P], R],
) -> Callable[Concatenate[ForwardingConnection, P], R]:
    name = operation.__name__
    OPERATIONS.add(name)

    @wraps(operation)
    def forward(self: ForwardingConnection, /, *arguments: P.args, **named: P.kwargs) -> R:
        given: list[Any] = [*cast("tuple[Any, ...]", arguments), *named.values()]
        return cast("R", self._forward(name, given[:-1], given[-1]))

    return forward


class ForwardingConnection(ABC):
    """Has the operations of a ``StoreConnection`` and forwards each of them."""

    @abstractmethod
    def _forward(self, operation: str, arguments: Sequence[Any], timeout: float) -> Any:
        """Have an operation carried out, and return its result."""

    begin_transaction = _forwarded(StoreConnection.begin_transaction)
    bounds = _forwarded(StoreConnection.bounds)
    health = _forwarded(StoreConnection.health)
    hold_transactions = _forwarded(StoreConnection.hold_transactions)
    move_group = _forwarded(StoreConnection.move_group)
    reserve_segment = _forwarded(StoreConnection.reserve_segment)
    resolve = _forwarded(StoreConnection.resolve)
    restore_group = _forwarded(StoreConnection.restore_group)
    settle_late = _forwarded(StoreConnection.settle_late)
    watermarks = _forwarded(StoreConnection.watermarks)


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
