"""Finds messages that are stored and that the native client never delivers, where a reader waits for them forever.

The client drops messages without a value, or with an empty one, that were sent alone and compressed with zlib. It keeps
back those that are encrypted end to end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

import mqplug
from mqplug import Log, Position, PositionLost
from mqplug.spi import Deadline, Numbers
from mqplug_pulsar._cluster.admin_interface import AdminInterface, topic_path
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids

FIRST_LOOK_S, LAST_LOOK_S = (
    1.0,
    60.0,
)  # after which a log is looked at that brings nothing; each time after twice as long
LOOK_TIMEOUT_S = 10.0
MAX_DROPPED = 1000  # messages that are passed over at once


class Undelivered:
    """Looks at the logs of a reader that has got nothing for a while. Needs the admin interface to find anything."""

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._waits: dict[Log, tuple[Numbers, float, float]] = {}  # where a log waits, when to look, and the next pause
        self._looks: dict[Log, Future[mqplug.Error | None]] = {}

    def check(self, wanted: Mapping[Log, Numbers]) -> None:
        """Raise the error for the messages at one of these positions, if it was found. Do not wait for the broker."""
        admin = self._connection.admin
        if admin is None:
            return
        now = time.monotonic()
        for log, place in wanted.items():
            at, due, pause = self._waits.get(log, ((), 0.0, 0.0))
            if at != place:
                self._waits[log] = (place, now + FIRST_LOOK_S, FIRST_LOOK_S)
                self._looks.pop(log, None)
            elif log in self._looks:
                self._raise_found(log)
            elif now >= due:
                self._waits[log] = (place, now + pause, min(2 * pause, LAST_LOOK_S))
                self._looks[log] = self._connection.calls.start(
                    lambda log=log, place=place: _look(self._connection, admin, log, place)  # type: ignore[misc]
                )

    def _raise_found(self, log: Log) -> None:
        if not self._looks[log].done():
            return
        look = self._looks.pop(log)
        found = look.result() if look.exception() is None else None  # the next look may succeed
        if found is not None:
            raise found


def _look(connection: PulsarConnection, admin: AdminInterface, log: Log, place: Numbers) -> mqplug.Error | None:
    """Return the error for the message at a position; None if it is one that will come."""
    ledger, entry, index = message_ids.start_of(place)
    deadline = Deadline(LOOK_TIMEOUT_S)
    ledgers = connection.ledgers(log, LOOK_TIMEOUT_S)
    at = first = ledgers.entry_at(ledger, entry)
    if index > 0 or (*first, -1) < ledgers.low:
        return None
    path = topic_path(connection.native_topic(log))
    for _ in range(MAX_DROPPED):
        if (*at, -1) >= ledgers.high:
            break
        headers = admin.headers(f"{path}/ledger/{at[0]}/entry/{at[1]}", max(0.1, deadline.remaining()))
        if at == first and headers.get("X-Pulsar-Is-Encrypted") == "true":
            return mqplug.Error(
                f"the message {at[0]}:{at[1]} is encrypted end to end, and this client has no key for it",
                topic=log.topic, fix="Read the topic with a client that has the key",
            )  # fmt: skip
        if not _is_dropped(headers):
            break
        at = ledgers.entry_at(at[0], at[1] + 1)
    if at == first:
        return None
    return PositionLost(
        f"pulsar-client drops the message {first[0]}:{first[1]}: it was sent alone with zlib, and has no value, or an "
        "empty one",
        log=log, low=Position(log, (*at, -1)), passable=True, topic=log.topic,
    )  # fmt: skip


def _is_dropped(headers: Mapping[str, str]) -> bool:
    return (
        headers.get("X-Pulsar-compression") == "ZLIB"
        and headers.get("X-Pulsar-uncompressed-size") == "0"
        and "X-Pulsar-num-batch-message" not in headers
    )
