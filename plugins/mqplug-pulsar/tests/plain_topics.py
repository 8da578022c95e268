"""Make mqplug create topics without partitions, as other clients do, where it would create one partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mqplug_pulsar._cluster.admin_interface import AdminInterface


@contextmanager
def plain_topics() -> Iterator[None]:
    """In the block, this process creates topics without partitions where one partition was requested."""
    put = AdminInterface.put

    def put_plain(self, path, body, *how):
        if path.endswith("/partitions") and body == 1:
            path, body = path.removesuffix("/partitions"), None
        return put(self, path, body, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdminInterface, "put", put_plain)
        yield
