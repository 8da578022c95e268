"""A harness for a URL: the one that the backend's distribution brings, or one that can only connect.

A distribution brings one by an entry point in the group ``mqplug.harnesses``, named as its backend: a function that
takes the URL and returns a context manager of a ``Harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import mqplug
from mqplug import Client
from mqplug._config.targets import target_of
from mqplug._plugins.discovery import registered
from mqplug.testing._harness.harness import Harness

GROUP: Final = "mqplug.harnesses"

Factory = Callable[[str], AbstractContextManager[Harness]]


def harness_for(text: str) -> AbstractContextManager[Harness]:
    """The harness for what this URL names, or this configuration file."""
    target = target_of(text)
    if isinstance(target, str):
        for entry in entry_points(group=GROUP, name=target.partition(":")[0]):
            factory: Factory = entry.load()
            return factory(target)
    return _connecting(target)


@contextmanager
def _connecting(target: str | Path) -> Iterator[Harness]:
    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(target, extensions=extensions)

    with connect() as client:  # what lives as long as somebody is connected lives as long as the run
        elsewhere = isinstance(target, str) and client.backend not in registered("backend")
        yield Harness(connect=connect, extended=connect, second_process=str(target) if elsewhere else None)
