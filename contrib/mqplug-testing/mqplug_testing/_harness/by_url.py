"""A harness for a URL: the one that the backend's distribution provides, or one that can only connect.

A distribution provides one by an entry point in the group ``mqplug.harnesses``, named after its backend: a function
that takes the URL and returns a context manager of a ``Harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import mqplug
from mqplug import Client
from mqplug.tools import registered, target_of
from mqplug_testing._harness.harness import Harness

HARNESS_ENTRY_POINTS: Final = "mqplug.harnesses"

HarnessFactory = Callable[[str], AbstractContextManager[Harness]]


def harness_for(text: str) -> AbstractContextManager[Harness]:
    """Return the harness of the backend that this URL, or this configuration file, names."""
    target = target_of(text)
    if isinstance(target, str):
        for entry in entry_points(group=HARNESS_ENTRY_POINTS, name=target.partition(":")[0]):
            factory: HarnessFactory = entry.load()
            return factory(target)
    return _connecting(target)


@contextmanager
def _connecting(target: str | Path) -> Iterator[Harness]:
    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(target, extensions=extensions)

    with connect() as client:  # keeps a store that ends with its last client for the whole run
        elsewhere = isinstance(target, str) and client.backend not in registered("backend")
        yield Harness(connect=connect, extended=connect, second_process=str(target) if elsewhere else None)
