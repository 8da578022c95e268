"""Transactions carried out on a store of this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mqplug import Error, NotAssigned
from mqplug.spi import Deadline, GroupMove
from mqplug_rocksmq._driver.consumer import Membership
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._driver.translation import log_at, log_number, stored_position
from mqplug_rocksmq._format.keys import StoredPosition
from mqplug_rocksmq._settings import BACKEND
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.transactions import StepContent


def commit_in_store(store: Store, commit: StepCommit, timeout: float) -> PlacedParts | Error:
    """Commit a transaction. Return the error that refused it."""
    deadline = Deadline(timeout)
    try:
        content = StepContent(
            commit.parts,
            _positions(store, commit.moves),
            commit.mark,
            partial(_check_members, store, commit.moves),
        )
        placed = store.transactions.commit(commit.step, content, deadline.remaining())
        if commit.synced and store.settings.sync != "always":
            store.sync()
    except Error as error:
        return error
    return [
        (log_at(store.id, part.topic, part.partition, each.log), each.first)
        for part, each in zip(commit.parts, placed, strict=True)
    ]


def _positions(store: Store, moves: Sequence[GroupMove]) -> dict[str, dict[int, StoredPosition]]:
    positions: dict[str, dict[int, StoredPosition]] = {}
    for move in moves:
        places = {log_number(store.id, log): stored_position(each) for log, each in move.positions.items()}
        positions.setdefault(move.group, {}).update(places)
    return positions


def _check_members(store: Store, moves: Sequence[GroupMove]) -> None:
    """Raise ``NotAssigned`` unless the members still hold the logs whose positions a transaction stores."""
    for move in moves:
        member = move.member
        if member is None or (isinstance(member, Membership) and member.holds(store, move.group, move.positions)):
            continue
        raise NotAssigned(
            f"the member of the group {move.group!r} lost partitions before its transaction was committed",
            fix="Receive again: the messages come again, to the member that has their partitions now",
            backend=BACKEND,
        )
