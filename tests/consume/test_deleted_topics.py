"""Closing a consumer whose topic was deleted."""

from __future__ import annotations

import pytest

import mqplug


def test_close_after_the_topic_was_deleted() -> None:
    """Close succeeds, and reports no deleted message as coming again; a commit says that the topic is gone."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"x")
        with mq.consumer("orders", group="g") as orders:
            message = orders.receive(timeout=5)
            assert message is not None
            orders.ack(message)
            mq.delete_topic("orders")
            with pytest.raises(mqplug.TopicNotFound, match="orders"):
                orders.commit()
