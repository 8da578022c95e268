"""Requests of client processes to the owner of a store: the operations of a table, and some other calls.

A new operation of ``StoreConnection`` gets one line in the table. All client processes then have it.

The commit of a transaction is one request, which has all pages, positions and the mark of the transaction. A client
keeps the records of an open transaction itself. They always fit into one frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from mqplug import Error, Log, OutcomeUnknown
from mqplug.spi import GroupMove
from mqplug_rocksmq._care.backup import back_up_store
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.consumer import Membership
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._processes.codec import error_from_wire, error_to_wire, from_wire, to_wire
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.owner_services import ConsumerRegistry, OwnerServices
from mqplug_rocksmq._processes.served_producer import cut_pages, not_stored
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.transactions import LogPages, StepId

COMMIT_TRANSACTION: Final = "commit_transaction"
_LOST: Final = object()  # the member of a move whose membership has ended
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
    """A connection that forwards each operation of a ``StoreConnection``."""

    @abstractmethod
    def _forward(self, operation: str, arguments: Sequence[Any], timeout: float) -> Any:
        """Carry out an operation where the store is open, and return its result."""

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
    except Exception as error:  # noqa: BLE001 - the client raises it
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


class RemoteMembership(NamedTuple):
    """A member of a group whose consumer is in the owner process, and the logs that it held at one moment."""

    token: str
    terms: Mapping[Log, int]


def commit_request(commit: StepCommit, timeout: float) -> tuple[FrameHeader, list[bytes]]:
    """Return a commit as a request, and the pages that follow it."""
    pages = [[body.seal(0) for body in part.bodies] for part in commit.parts]
    request = {
        "call": COMMIT_TRANSACTION, "step": list(commit.step), "timeout": timeout, "synced": commit.synced,
        "parts": [
            [part.topic, part.partition, list(map(len, each))]
            for part, each in zip(commit.parts, pages, strict=True)
        ],
        "mark": to_wire(commit.mark),
        "moves": [[move.group, to_wire(move.positions), _member_words(move)] for move in commit.moves],
    }  # fmt: skip
    return request, [page for each in pages for page in each]


def _member_words(move: GroupMove) -> list[Any] | None:
    if move.member is None:
        return None
    # A member that joined at another owner has no token that this owner knows.
    member = move.member if isinstance(move.member, RemoteMembership) else RemoteMembership("", {})
    return [member.token, to_wire({log: term for log, term in member.terms.items() if log in move.positions})]


def answer_commit(server: OwnerServices, request: FrameHeader, body: bytes) -> FrameHeader:
    """Commit the transaction of a client process."""
    try:
        commit = _read_commit(server.consumers, request, body)
        outcome = server.store_connection.commit_transaction(commit, float(request["timeout"]))
    except (Error, ValueError, LookupError) as error:
        outcome = not_stored(error)
    if isinstance(outcome, Error):
        return {"error": error_to_wire(outcome)}
    return {"answer": to_wire(list(outcome))}


def _read_commit(consumers: ConsumerRegistry, request: FrameHeader, body: bytes) -> StepCommit:
    name, holder, number = request["step"]
    lengths = [length for _, _, each in request["parts"] for length in each]
    pages = iter(cut_pages(lengths, body) if lengths else ())
    parts = [
        LogPages(str(topic), int(partition), [Page(next(pages)).unsealed() for _ in each])
        for topic, partition, each in request["parts"]
    ]
    moves = [
        GroupMove(str(group), from_wire(positions), _member(consumers, words))
        for group, positions, words in request["moves"]
    ]
    step = StepId(str(name), str(holder), int(number))
    return StepCommit(step, parts, from_wire(request["mark"]), moves, bool(request["synced"]))


def _member(consumers: ConsumerRegistry, words: Sequence[Any] | None) -> object | None:
    if words is None:
        return None
    token, terms = words
    consumer = consumers.find(token)
    return _LOST if consumer is None else Membership(consumer, from_wire(terms))


def read_commit_answer(answer: FrameHeader) -> PlacedParts | Error:
    """Return the owner's answer to a commit."""
    if "error" in answer:
        error = error_from_wire(answer["error"])
        return error if isinstance(error, Error) else OutcomeUnknown(str(error))
    placed: PlacedParts = from_wire(answer["answer"])
    return placed
