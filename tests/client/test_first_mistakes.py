"""Mistakes of a newcomer at the prompt: the message shows the given value, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mqplug
from mqplug import EARLIEST, MessageId, Position, Record, Retry


class Bag:
    """A client, a producer, a member of a group, a message of it, a batch, and a position."""

    def __init__(self, mq: mqplug.Client) -> None:
        self.mq = mq
        self.out = mq.producer("orders")
        self.out.send_many([b"0", b"1", b"2"])
        self.c = mq.consumer("orders", group="billing")
        message = self.c.receive(timeout=5)
        assert message is not None
        self.m = message
        self.batch = mq.consumer("orders", start=EARLIEST).receive_many(2, timeout=5)
        self.low = mq.watermarks("orders")[0].low

    def opens(self, **wrong: Any) -> object:
        """Open a consumer of a group, or of none."""
        return self.mq.consumer("orders", **{"start": EARLIEST} if "partitions" in wrong else {"group": "g"}, **wrong)


@pytest.fixture(scope="module")
def bag() -> Iterator[Bag]:
    """The objects that a prompt has after a few lines."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        yield Bag(mq)


NOW = datetime(2020, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

MISTAKES: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("send text", lambda b: b.out.send("text"), TypeError, r"not str; encode it first, as in text\.encode"),
    ("send 5", lambda b: b.out.send(5), TypeError, r"not int; write it as text, as in str\(number\)\.encode"),
    ("send 5.5", lambda b: b.out.send(5.5), TypeError, r"not float; write it as text"),
    ("send dict", lambda b: b.out.send({"a": 1}), TypeError, r"not dict; encode it first, as in json\.dumps"),
    ("send list", lambda b: b.out.send([b"a"]), TypeError, r"not list; encode it first"),
    ("send bytearray", lambda b: b.out.send(bytearray(b"x")), TypeError, r"not bytearray; call bytes\(\.\.\.\) on it"),
    ("send record", lambda b: b.out.send(Record(b"x")), TypeError, r"send_many\(\) takes records"),
    ("send message", lambda b: b.out.send(b.m), TypeError, r"send its value, as in send\(message\.value"),
    ("send object", lambda b: b.out.send(object()), TypeError, r"not object$"),
    ("key 5", lambda b: b.out.send(b"x", key=5), TypeError, r"key must be bytes or None, not int; write it as text"),
    ("header of text", lambda b: b.out.send(b"x", headers={"a": "b"}), TypeError, r"header 'a' .* encode it first"),
    ("header of int", lambda b: b.out.send(b"x", headers={"a": 1}), TypeError, r"header 'a' .* write it as text"),
    ("header as list", lambda b: b.out.send(b"x", headers=[["a", b"b"]]), TypeError, r"a tuple .* not list"),
    ("header of bytes", lambda b: b.out.send(b"x", headers={b"a": b"b"}), TypeError, r"not bytes; decode it first"),
    ("headers 5", lambda b: b.out.send(b"x", headers=5), TypeError, r"headers must be pairs .* not int"),
    ("headers text", lambda b: b.out.send(b"x", headers="abc"), TypeError, r"headers must be pairs .* not str"),
    ("time in seconds", lambda b: b.out.send(b"x", timestamp=1.5), TypeError, r"pass int\(seconds \* 1000\)"),
    ("many of bytes", lambda b: b.out.send_many(b"abc"), TypeError, r"not bytes; send\(\) takes a single one"),
    ("many of text", lambda b: b.out.send_many("abc"), TypeError, r"not str; send\(\)"),
    ("many of a record", lambda b: b.out.send_many(Record(b"x")), TypeError, r"not Record; send\(\)"),
    ("many of a dict", lambda b: b.out.send_many({"a": b"v"}), TypeError, r"not dict"),
    ("many of None", lambda b: b.out.send_many(None), TypeError, r"must be a list, .* not NoneType"),
    ("many of ints", lambda b: b.out.send_many([1]), TypeError, r"not int; write it as text"),
    ("many of pairs", lambda b: b.out.send_many([(b"k", b"v")]), TypeError, r"not tuple: use Record\(value, key="),
    ("many of dicts", lambda b: b.out.send_many([{"value": b"v"}]), TypeError, r"not dict: use Record"),
    ("many of messages", lambda b: b.out.send_many([b.m]), TypeError, r"use Record\(message\.value"),
    ("stage bytes", lambda b: b.mq.stage("orders").write(b"abc"), TypeError, r"must be a list"),
    ("when_full", lambda b: b.out.submit(b"x", when_full="drop"), ValueError, r"'block' or 'raise', not 'drop'"),
    ("ack a batch", lambda b: b.c.ack(b.batch[:1]), TypeError, r"not Batch: call it for each"),
    ("ack a list", lambda b: b.c.ack([b.m]), TypeError, r"not list: call it for each message"),
    ("ack a text", lambda b: b.c.ack(str(b.m.id)), TypeError, r"MessageId\.parse\(text\)"),
    ("nack an id", lambda b: b.c.nack(b.m.id), TypeError, r"not MessageId: keep the message itself"),
    ("nack for a span", lambda b: b.c.nack(b.m, delay=SECOND), TypeError, r"not timedelta: pass its total_seconds\(\)"),
    ("handling 5", lambda b: b.c.handling(5).__enter__(), TypeError, r"handling\(\) takes a Message, not int"),
    ("seek message", lambda b: b.c.seek(b.m), TypeError, r"before\(message\.id\) or after\(message\.id\)"),
    ("seek text of id", lambda b: b.c.seek(str(b.m.id)), TypeError, r"MessageId\.parse\(text\)"),
    ("seek text of position", lambda b: b.c.seek(str(b.low)), TypeError, r"Position\.parse\(text\)"),
    ("seek a word", lambda b: b.c.seek("latest"), TypeError, r"use mqplug\.LATEST, without quotes"),
    ("seek another word", lambda b: b.c.seek("5"), TypeError, r"MessageId\.parse and Position\.parse"),
    ("seek time", lambda b: b.c.seek(NOW), TypeError, r"use at_time\(moment\)"),
    ("seek span", lambda b: b.c.seek(SECOND), TypeError, r"use ago\(hours=1\)"),
    ("seek mapping", lambda b: b.c.seek({0: b.low}), TypeError, r"one position at a time"),
    ("seek partition", lambda b: b.c.seek(EARLIEST, partition="0"), TypeError, r"partition must be a whole .* not str"),
    ("pause text", lambda b: b.c.pause("0"), TypeError, r"a partition must be a whole number, not str"),
    ("pause True", lambda b: b.c.pause(True), TypeError, r"a partition must be a whole number, not bool"),
    ("resume list", lambda b: b.c.resume([0]), TypeError, r"a partition must be a whole number, not list"),
    ("another topic", lambda b: b.c.position("nope"), ValueError, r"does not read 'nope'; expected one of 'orders'"),
    ("committed there", lambda b: b.c.committed("nope"), ValueError, r"does not read 'nope'"),
    ("wait a span", lambda b: b.c.receive(SECOND), TypeError, r"not timedelta: pass its total_seconds\(\)"),
    ("partitions 0", lambda b: b.opens(partitions=0), TypeError, r"a list of whole numbers, as in \[0, 1\], not int"),
    ("partitions text", lambda b: b.opens(partitions="0"), TypeError, r"a list of whole numbers, .* not str"),
    ("partitions of text", lambda b: b.opens(partitions=["0"]), TypeError, r"a partition must be a whole number"),
    ("no partitions", lambda b: b.opens(partitions=[]), ValueError, r"omit it to read all"),
    ("start word", lambda b: b.opens(start="earliest"), TypeError, r"use mqplug\.EARLIEST, without quotes"),
    ("callback", lambda b: b.opens(on_assigned=5), TypeError, r"on_assigned must be callable, and int is not"),
    ("processing span", lambda b: b.opens(max_processing=SECOND), TypeError, r"pass its total_seconds\(\)"),
    ("retry delay text", lambda b: Retry(delay="1"), TypeError, r"delay must be a number, not str"),
    ("retry delay span", lambda b: Retry(delay=SECOND), TypeError, r"delay must be a number, not timedelta: pass its"),
    ("retry longest True", lambda b: Retry(longest=True), TypeError, r"longest must be a number, not bool"),
    ("lag of nobody", lambda b: b.mq.lag("orders", group="biling"), mqplug.GroupNotFound,
     r"'biling' has no position on 'orders' .*Did you mean 'billing'\? List the groups .* groups\('orders'\)"),
    ("positions of nobody", lambda b: b.mq.positions("orders", group="x"), mqplug.GroupNotFound,
     r"'x' has no position on 'orders' .*'lag'|List the groups of the topic with groups\('orders'\)"),
    ("before a message", lambda b: mqplug.before(b.m), TypeError, r"not Message; pass message\.id"),
    ("after a text", lambda b: mqplug.after(str(b.m.id)), TypeError, r"MessageId\.parse reads its text"),
    ("after a position", lambda b: mqplug.after(b.low), TypeError, r"not Position, which is a start by itself"),
    ("ago text", lambda b: mqplug.ago(hours="1"), TypeError, r"as in ago\(hours=1\), not str"),
    ("id of a position", lambda b: MessageId.parse(str(b.low)), mqplug.InvalidMessageId, r"with Position\.parse"),
    ("position of an id", lambda b: Position.parse(str(b.m.id)), mqplug.InvalidMessageId, r"with MessageId\.parse"),
    ("id of bytes", lambda b: MessageId.parse(str(b.m.id).encode()), TypeError, r"not bytes: decode it first"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_mistake_is_explained(bag: Bag, call: Callable[[Bag], Any], error: type[Exception], said: str) -> None:
    """A mistake raises before it has any effect, and the message says what to write instead."""
    before = bag.out.statistics(), bag.c.statistics().returned, bag.c.position()
    with pytest.raises(error, match=said):
        call(bag)
    assert (bag.out.statistics(), bag.c.statistics().returned, bag.c.position()) == before
