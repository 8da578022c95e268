"""A harness for a URL: the one that the backend's distribution brings, or one that can only connect.

A distribution brings one by an entry point in the group ``mqplug.harnesses``, named as its backend: a function that
takes the URL and returns a context manager of a ``Harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from typing import Final

import mqplug
from mqplug import Client
from mqplug.testing._harness import Harness

GROUP: Final = "mqplug.harnesses"

Factory = Callable[[str], AbstractContextManager[Harness]]


def harness_for(url: str) -> AbstractContextManager[Harness]:
    """The harness for what this URL names."""
    scheme = url.partition(":")[0]
    for entry in entry_points(group=GROUP, name=scheme):
        factory: Factory = entry.load()
        return factory(url)
    return _connecting(url)


@contextmanager
def _connecting(url: str) -> Iterator[Harness]:
    def extended(extensions: Sequence[object]) -> Client:
        return mqplug.connect(url, extensions=extensions)

    with mqplug.connect(url):  # what lives as long as somebody is connected lives as long as the run
        yield Harness(connect=lambda: mqplug.connect(url), extended=extended)
