"""The diagrams of docs/architecture.md show the path of a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from way_of_a_message import modules_called, modules_pictured

import mqplug


@pytest.fixture
def opened(path: Path) -> Any:
    """A producer and a member of a group that have already sent and received."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out, mq.consumer("orders", group="billing") as reader:
            for _ in range(3):
                out.send(b"x", key=b"k")
                reader.ack(reader.receive(1))
            yield out, reader


def test_a_sent_message(opened: Any) -> None:
    """A warm send passes through every module in its diagram."""
    out, _ = opened
    assert modules_pictured("A message is sent") - modules_called(lambda: out.send(b"x", key=b"k")) == set()


def test_a_received_message(opened: Any) -> None:
    """A warm receive passes through every module in its diagram."""
    out, reader = opened
    out.send(b"x", key=b"k")
    assert modules_pictured("A message is received") - modules_called(lambda: reader.receive(10)) == set()
