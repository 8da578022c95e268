"""The harness of the memory backend."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mqplug
from mqplug import Client, Position
from mqplug.memory import Store
from mqplug_testing._harness.harness import Harness


@contextmanager
def harness(url: str) -> Iterator[Harness]:
    """Yield a harness of a new store, which ends with it. The URL selects the backend that the store imitates."""
    name = uuid.uuid4().hex

    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(url, name=name, extensions=extensions)

    with connect():
        yield Harness(
            connect=connect,
            extended=connect,
            restart=lambda: None,  # the store outlives its clients while one of them is open
            trim_before=_trim,
            roll=_roll,
            enforce=_enforce,
        )


def _store(client: Client) -> Store:
    store = client.unwrap(Store)
    if store is None:
        raise TypeError(f"{client!r} has no memory store")
    return store


def _trim(client: Client, topic: str, before: Position) -> None:
    """Trim as retention does, on a backend that has no call for it."""
    store = _store(client)
    with store.changed:
        store.partition(before.log).trim(before.coordinates)


def _roll(client: Client, topic: str) -> None:
    store = _store(client)
    with store.changed:
        for partition in store.topic(topic):
            partition.numbering.roll()


def _enforce(client: Client, topic: str) -> None:
    """Do nothing: every access to the store applies retention."""
