"""Make mqplug create topics without partitions, as other clients do, where it would create one partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from driver_faults import change


@contextmanager
def plain_topics() -> Iterator[None]:
    """In the block, this process creates topics without partitions where one partition was requested."""

    def put_plain(put, self, path, body, *how):
        if path.endswith("/partitions") and body == 1:
            path, body = path.removesuffix("/partitions"), None
        return put(self, path, body, *how)

    with pytest.MonkeyPatch.context() as patch:
        change(patch, "put of the admin interface", put_plain)
        yield
