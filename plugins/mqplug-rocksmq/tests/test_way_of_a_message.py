"""The diagrams of docs/architecture.md show the path of a message."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mqplug

PAGE = (Path(__file__).parents[3] / "docs/architecture.md").read_text()


def modules_called(call: Callable[[], Any]) -> set[str]:
    """Return the modules of mqplug whose functions a call enters on its own thread."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name for name in seen if name.partition(".")[0] in {"mqplug", "mqplug_rocksmq"}}


def modules_pictured(heading: str) -> set[str]:
    """Return the modules in the diagram under this heading; ``a.b, .c`` means ``a.b`` and ``a.c``."""
    picture = PAGE.partition(f"## {heading}\n")[2].partition("```text\n")[2].partition("```")[0]
    named = set()
    for chain in re.findall(r"mqplug[\w.]*(?:, \.?[\w.]+)*", picture):
        first, *others = chain.split(", ")
        named |= {first, *(f"{first.rpartition('.')[0]}{other}" if other[0] == "." else other for other in others)}
    return named - {"mqplug.spi"}


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
