"""A peculiarity of Pulsar: topics in other namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clusters import new_name
from queries import read_all

import mqplug

if TYPE_CHECKING:
    from mqplug_devbrokers import PulsarServer


@pytest.mark.night
@pytest.mark.timeout(180)  # the first test that needs Pulsar starts it
def test_a_pattern_of_full_names_selects_topics(shared_pulsar: PulsarServer) -> None:
    """A pattern that begins with persistent:// selects the same topics as mqplug.matching."""
    name = new_name("orders")
    full = f"persistent://public/default/{name}"
    with mqplug.connect(shared_pulsar.url) as mq:
        mq.create_topic(name)
        with mq.producer(name) as out:
            out.send(b"1")
    rows = read_all({"url": shared_pulsar.url, "subscribePattern": f"persistent://public/default/{name}.*"})
    assert rows == [(full, 0, 1)]
