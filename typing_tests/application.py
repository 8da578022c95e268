# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What an application writes: the types it gets, and mistakes that both checkers must find.

A line with `type: ignore` proves a mistake is found: an ignore that is not needed is itself an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, assert_type

import mqplug


def opening() -> None:
    assert_type(mqplug.connect(), mqplug.Client)
    assert_type(mqplug.connect("kafka", servers=["host:9092"], timeout=None, extensions=["faults"]), mqplug.Client)
    assert_type(mqplug.connect(Path("mqplug.toml"), mode="cluster"), mqplug.Client)
    assert_type(mqplug.connect({"backend": "memory"}), mqplug.Client)
    assert_type(mqplug.configured("kafka", Path("mqplug.toml")), bool)
    mqplug.connect(3)  # type: ignore[arg-type]
    mqplug.connect("memory", timeout="1")  # type: ignore[arg-type]
    mqplug.configured()  # type: ignore[call-arg]
    mqplug.conect()  # type: ignore[attr-defined]


def administering(mq: mqplug.Client) -> None:
    mq.create_topic("orders", partitions=4, retention=timedelta(days=1), retention_bytes=10**9, exist_ok=True)
    assert_type(mq.describe("orders"), mqplug.TopicInfo)
    assert_type(mq.describe("orders").retention, float | None)
    assert_type(mq.groups(), list[mqplug.GroupInfo])
    stands = mq.positions("orders", group="billing")
    assert_type(stands, dict[int, mqplug.GroupPosition])
    marks = mq.watermarks("orders")
    mq.reset_group("billing", "orders", mqplug.ago(hours=1), missing="next")
    mq.reset_group("billing", "orders", stands)
    mq.reset_group("billing", "orders", {number: each.low for number, each in marks.items()})
    assert_type(mq.resolve("orders", mqplug.LATEST), dict[int, mqplug.Position])
    assert_type(mq.resolve(["orders"], mqplug.last(1)), dict[str, dict[int, mqplug.Position]])
    assert_type(mq.advance(mq.watermarks("orders")[0].low, 7), mqplug.Position)
    assert_type(mq.distance(mq.watermarks("orders")[0].low, mq.watermarks("orders")[0].high), int)
    assert_type(mq.lag("orders", group="billing"), dict[int, int])
    assert_type(mq.lag(["orders", "audit"], group="billing"), dict[str, dict[int, int]])
    assert_type(mq.support("nack"), Literal["native", "core", "absent"])
    mq.create_topic("orders", retention="1 day")  # type: ignore[arg-type]
    mq.reset_group("billing", "orders", "earliest")  # type: ignore[arg-type]
    mq.reset_group("billing", "orders")  # type: ignore[call-arg]
    mq.trim("orders", {0: 7})  # type: ignore[dict-item]


def sending(mq: mqplug.Client) -> None:
    with mq.producer("orders") as out:
        assert_type(out, mqplug.Producer)
        assert_type(out.send(b"value", key=b"key", headers=[("name", None)]), mqplug.MessageId)
        assert_type(out.submit(None, timestamp=datetime.now(UTC)), mqplug.SendHandle)
        assert_type(out.submit(b"value").result(timeout=1), mqplug.MessageId)
        assert_type(out.send_many([b"value", mqplug.Record(b"value", key=b"key")]), Sequence[mqplug.MessageId])
        out.send("text")  # type: ignore[arg-type]
        out.send(b"value", key="text")  # type: ignore[arg-type]
        out.send(b"value", b"key")  # type: ignore[call-arg]
        out.send(b"value", timestamp=1.5)  # type: ignore[arg-type]


def receiving(mq: mqplug.Client) -> None:
    with mq.consumer(["orders", "audit"], group="billing", start=mqplug.LATEST) as orders:
        assert_type(orders.receive(timeout=1), mqplug.Message | None)
        assert_type(orders.receive_many(10, timeout=None), mqplug.Batch)
        for message in orders:
            assert_type(message, mqplug.Message)
            assert_type(message.id, mqplug.MessageId)
            assert_type(message.key, bytes | None)
            assert_type(message.timestamp, datetime)
            orders.ack(message)
            orders.ack(message.id)
            message.value = b""  # type: ignore[misc]
        orders.ack(b"value")  # type: ignore[arg-type]
        orders.receive(10).value  # type: ignore[union-attr]
    assert_type(mq.read("orders", start=mqplug.ago(hours=1)), Iterator[mqplug.Message])
    mq.consumer("orders", group="billing", mode="some")  # type: ignore[arg-type]


def choosing_topics(mq: mqplug.Client) -> None:
    orders = mq.consumer(mqplug.matching(r"orders\..*"), group="billing")
    assert_type(orders, mqplug.Consumer)
    assert_type(mq.read(mqplug.matching("orders")), Iterator[mqplug.Message])
    orders.run(print, threads=64, order="key")
    orders.run(print, order="topic")  # type: ignore[arg-type]
    mqplug.serve([(orders, print), (orders, rejecting)], threads=4)
    mqplug.serve([orders])  # type: ignore[list-item]
    mqplug.matching(3)  # type: ignore[arg-type]


def rejecting(message: mqplug.Message) -> None:
    raise mqplug.Reject("no address")


def transacting(mq: mqplug.Client, orders: mqplug.Consumer) -> None:
    with mq.transaction("biller", "invoices", consumer=orders, number=7) as step:
        assert_type(step, mqplug.Transaction)
        assert_type(step.repeated, bool)
        assert_type(step.send(b"value", key=b"key", topic="audit"), mqplug.SendHandle)
        assert_type(step.send_many([b"value"]), mqplug.BatchHandle)
        assert_type(step.send_many([b"value"]).result(), Sequence[mqplug.MessageId])
        step.send("text")  # type: ignore[arg-type]
    mq.transaction(7)  # type: ignore[arg-type]
    mq.transaction("biller", consumer="orders")  # type: ignore[arg-type]


def places(mq: mqplug.Client, message: mqplug.Message, position: mqplug.Position) -> None:
    starts: list[mqplug.Start] = [
        mqplug.EARLIEST,
        mqplug.LATEST,
        mqplug.before(message.id),
        mqplug.after(message.id),
        mqplug.at_time(datetime.now(UTC)),
        mqplug.ago(minutes=5),
        mqplug.last(10),
        position,
    ]
    assert starts
    assert_type(message.id < mqplug.MessageId.parse(str(message.id)), bool)
    assert_type(position <= mqplug.Position.parse(str(position)), bool)
    message.id < position  # type: ignore[operator]
    mqplug.before(message)  # type: ignore[arg-type]
    mqplug.ago(1)  # type: ignore[call-arg]


def questions(mq: mqplug.Client) -> None:
    assert_type(mq.watermarks("orders"), dict[int, mqplug.Watermarks])
    assert_type(mq.watermarks(["orders", "audit"]), dict[str, dict[int, mqplug.Watermarks]])
    assert_type(mq.watermarks("orders")[0].low, mqplug.Position)
    assert_type(mq.bounds("orders")[0].last_id, mqplug.MessageId | None)
    assert_type(mq.lag("orders", group="billing"), dict[int, int])
    assert_type(mq.unwrap(int), int | None)
    mq.lag("orders")  # type: ignore[call-overload]


def errors(error: mqplug.Error) -> None:
    assert_type(error.retryable, bool)
    assert_type(error.fix, str | None)
    if isinstance(error, mqplug.PositionLost):
        assert_type(error.low, mqplug.Position | None)
    waited: list[TimeoutError] = [mqplug.Timeout("too long")]
    assert waited
