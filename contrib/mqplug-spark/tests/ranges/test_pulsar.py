"""A peculiarity of Pulsar: topics in other namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clusters import new_name

import mqplug
from mqplug_spark._batch_read import plan_ranges
from mqplug_spark._options.read_options import parse_options

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
            out.send(b"one")
        options = parse_options({"url": shared_pulsar.url, "subscribePattern": f"persistent://public/default/{name}.*"})
        (planned,) = plan_ranges(mq, options)
    assert planned.topic == full
