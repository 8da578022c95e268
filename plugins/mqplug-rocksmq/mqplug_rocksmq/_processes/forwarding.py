"""The table of operations that are forwarded to the place where a store is open.

A new operation of ``StoreConnection`` gets one line here. All client processes then have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from mqplug_rocksmq._driver.connection import StoreConnection

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
