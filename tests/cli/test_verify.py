"""`mqplug verify`: what it finds in one topic, and between two."""

from __future__ import annotations

import json
import re

import pytest

import mqplug
from mqplug_cli import run_command
from mqplug_cli._measuring import comparison, topic_check
from mqplug_cli._measuring.checksums import FIELDS, PartitionChecksum
from mqplug_cli._measuring.topic_check import PartitionCheck

TIME = 1_700_000_000_000


def records(count=60, **changes):
    """Return messages of every kind: with and without keys, values, headers and times. `changes` holds rows by "rN"."""
    made = [
        mqplug.Record(
            None if number % 7 == 3 else b"value %d" % number,
            key=None if number % 5 == 4 else b"key %d" % (number % 4),
            headers=[("kind", b"x"), ("kind", None)] if number % 3 else (),
            timestamp=TIME + number,
            partition=number % 2,
        )
        for number in range(count)
    ]
    for row, record in changes.items():
        made[int(row[1:])] = record
    return made


@pytest.fixture
def stores(request):
    """Two stores in memory, each with the topic "orders" of two partitions."""
    urls = [f"memory://{request.node.originalname}-{side}" for side in ("mine", "other")]
    with mqplug.connect(urls[0]) as mine, mqplug.connect(urls[1]) as other:
        for mq in (mine, other):
            mq.create_topic("orders", partitions=2)
        yield {"mine": mine, "other": other, "urls": urls}


def fill(mq, rows, topic="orders"):
    """Send these records."""
    with mq.producer(topic) as out:
        out.send_many(rows)


def verify(capsys, *arguments):
    """Return the exit code and the report of one verification."""
    code = run_command(["verify", *arguments, "-o", "json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else printed.err


def compare(capsys, stores, *arguments):
    """Return the exit code and the differences between the two stores."""
    mine, other = stores["urls"]
    code, found = verify(capsys, mine, "orders", "--against", other, *arguments)
    return code, [each["says"] for each in found["differences"]], found


def test_a_sound_topic_is_good(capsys, stores):
    """Each partition has its count, its bytes and a checksum."""
    fill(stores["mine"], records())
    code, found = verify(capsys, stores["urls"][0], "orders")
    assert (code, found["messages"], found["problems"], found["same"]) == (0, 60, [], None)
    rows = found["partitions"]
    assert [(row["partition"], row["messages"]) for row in rows] == [(0, 30), (1, 30)]
    assert rows[0]["checksum"] != rows[1]["checksum"]
    assert mqplug.MessageId.parse(rows[1]["first_id"]).log.partition == 1


def test_an_empty_topic_has_nothing_to_verify(capsys, stores):
    """An empty topic exits with 3."""
    assert verify(capsys, stores["urls"][0], "orders")[0] == 3


def test_checksums_do_not_depend_on_batches(capsys, stores, monkeypatch):
    """The same messages have the same checksum, however they were divided into batches."""
    fill(stores["mine"], records())
    whole = verify(capsys, stores["urls"][0], "orders")[1]
    monkeypatch.setattr(topic_check, "BATCH_MESSAGES", 7)
    assert verify(capsys, stores["urls"][0], "orders")[1] == whole


def test_equal_topics_are_the_same(capsys, stores):
    """Two topics with the same messages are equal, although their ids differ."""
    fill(stores["mine"], records())
    fill(stores["other"], records())
    code, says, found = compare(capsys, stores)
    assert (code, says, found["same"]) == (0, [], True)
    assert found["compared"] == list(FIELDS)


CHANGED = mqplug.Record(b"value 30", key=b"key 2", timestamp=TIME + 30, partition=0)


@pytest.mark.parametrize(
    ("field", "record"),
    [
        ("value", mqplug.Record(b"other", CHANGED.key, timestamp=CHANGED.timestamp, partition=0)),
        ("key", mqplug.Record(CHANGED.value, b"other", timestamp=CHANGED.timestamp, partition=0)),
        ("headers", mqplug.Record(CHANGED.value, CHANGED.key, {"kind": b"x"}, CHANGED.timestamp, 0)),
        ("timestamp", mqplug.Record(CHANGED.value, CHANGED.key, timestamp=TIME, partition=0)),
    ],
)
def test_the_first_difference_is_named(capsys, stores, monkeypatch, field, record):
    """One changed field is found, with the number of the message, the field and the ids of both sides."""
    monkeypatch.setattr(topic_check, "BATCH_MESSAGES", 4)
    fill(stores["mine"], records(r30=CHANGED))
    fill(stores["other"], records(r30=record))
    code, (says,), found = compare(capsys, stores)
    (difference,) = found["differences"]
    assert (code, difference["partition"], difference["message"], difference["fields"]) == (1, 0, 15, [field])
    for side, text in zip(("mine", "other"), difference["ids"], strict=True):
        (message,) = stores[side].read(
            "orders", start=mqplug.before(mqplug.MessageId.parse(text)),
            until=mqplug.after(mqplug.MessageId.parse(text)), partitions=[0],
        )  # fmt: skip
        assert getattr(message, field) != () or field == "headers"
        assert text in says


def test_ignored_fields_do_not_count(capsys, stores):
    """--ignore leaves a field out, and the report lists the compared ones."""
    fill(stores["mine"], records(r30=CHANGED))
    fill(stores["other"], records(r30=mqplug.Record(CHANGED.value, CHANGED.key, timestamp=TIME, partition=0)))
    assert compare(capsys, stores)[0] == 1
    code, says, found = compare(capsys, stores, "--ignore", "timestamp")
    assert (code, says, found["compared"]) == (0, [], ["key", "value", "headers"])


def test_a_message_that_is_missing_at_the_end_is_named(capsys, stores):
    """If one topic ends early, the first message that it lacks is named."""
    fill(stores["mine"], records())
    fill(stores["other"], records()[:59])
    code, (says,), found = compare(capsys, stores)
    assert (code, found["differences"][0]["ids"][1]) == (1, None)
    assert says.startswith("partition 1, message 29: only the first topic has it, as m1~memory~")


def test_order_within_a_partition_counts(capsys, stores):
    """Two swapped messages are a difference."""
    rows = records()
    fill(stores["mine"], rows)
    fill(stores["other"], [*rows[:10], rows[12], rows[11], rows[10], *rows[13:]])
    code, _, found = compare(capsys, stores)
    assert (code, found["differences"][0]["message"]) == (1, 5)


@pytest.fixture
def three_partitions(stores):
    """The other store's topic "orders" has three partitions, to which another rule maps keys."""
    stores["other"].delete_topic("orders")
    stores["other"].create_topic("orders", partitions=3)
    return stores


def keyed(partitions, order=range(60)):
    """Return messages with keys, in the partition that the key's number leads to."""
    return [
        mqplug.Record(b"value %d" % each, key=b"key %d" % (each % 6), timestamp=TIME, partition=each % 6 % partitions)
        for each in order
    ]


def test_other_partitions_are_a_difference(capsys, three_partitions):
    """Topics with different partition counts differ, and the option that compares them is named."""
    fill(three_partitions["mine"], keyed(2))
    fill(three_partitions["other"], keyed(3))
    code, (says,), _ = compare(capsys, three_partitions)
    assert (code, says) == (1, "2 partitions against 3. --any-partition compares regardless of partitions")


def test_any_partition_compares_contents(capsys, three_partitions):
    """With --any-partition the same messages in other partitions are equal if each key keeps its order."""
    fill(three_partitions["mine"], keyed(2))
    fill(three_partitions["other"], keyed(3))
    assert compare(capsys, three_partitions, "--any-partition")[:2] == (0, [])


def test_any_partition_names_what_one_side_lacks(capsys, three_partitions):
    """An additional message, and an altered one, are named with their ids."""
    fill(three_partitions["mine"], [*keyed(2), keyed(2)[7]])
    fill(three_partitions["other"], [*keyed(3)[:-1], mqplug.Record(b"altered", partition=0)])
    code, says, _ = compare(capsys, three_partitions, "--any-partition")
    assert (code, [each.split()[2] for each in says]) == (1, ["first", "first", "second"])
    assert all(mqplug.MessageId.parse(each.split()[5].rstrip(";")) for each in says)


def test_any_partition_finds_a_key_out_of_order(capsys, three_partitions):
    """The same messages with those of one key in another order differ, and the key is named."""
    fill(three_partitions["mine"], keyed(2))
    fill(three_partitions["other"], keyed(3, [*range(10), 16, *range(11, 16), 10, *range(17, 60)]))
    assert compare(capsys, three_partitions, "--any-partition")[:2] == (
        1,
        ["messages of the key b'key 4' are ordered differently"],
    )


def test_too_many_keys_are_said(capsys, three_partitions, monkeypatch):
    """If there are too many keys to remember, contents are compared, and the report says that the order was not."""
    monkeypatch.setattr(comparison, "KEYS_MAX", 3)
    fill(three_partitions["mine"], keyed(2))
    fill(three_partitions["other"], keyed(3))
    mine, other = three_partitions["urls"]
    assert run_command(["verify", mine, "orders", "--against", other, "--any-partition"]) == 0
    assert "in any order" in capsys.readouterr().out


def test_another_topic_of_the_same_backend(capsys, stores):
    """--against-topic without --against compares two topics of one backend."""
    stores["mine"].create_topic("copy", partitions=2)
    fill(stores["mine"], records())
    fill(stores["mine"], records(), "copy")
    assert verify(capsys, stores["urls"][0], "orders", "--against-topic", "copy")[0] == 0


def test_against_may_be_a_context(capsys, stores, monkeypatch, tmp_path):
    """--against takes the name of a context in place of a URL."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mqplug.toml").write_text(f"[context.there]\nurl = {stores['urls'][1]!r}\n")
    fill(stores["mine"], records())
    fill(stores["other"], records()[:30])
    assert verify(capsys, stores["urls"][0], "orders", "--against", "there")[0] == 1


def test_for_people_it_ends_with_a_verdict(capsys, stores):
    """Without a format the output is a table, the differences, and a verdict that says what was compared."""
    fill(stores["mine"], records())
    fill(stores["other"], records(r30=mqplug.Record(CHANGED.value, CHANGED.key, {"kind": b"x"}, CHANGED.timestamp, 0)))
    mine, other = stores["urls"]
    assert run_command(["verify", mine, "orders"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "good: 60 messages, partitions: 2"
    assert run_command(["verify", mine, "orders", "--against", other]) == 1
    header, *_, difference, verdict = capsys.readouterr().out.splitlines()
    assert header.split() == ["partition", "messages", "against", "checksum", "same"]
    assert difference.startswith("partition 0, message 15: different headers")
    assert verdict == "DIFFERENT: compared key, value, headers, timestamp"


def test_messages_that_do_not_come_are_a_problem(capsys, stores, monkeypatch):
    """A store that counts more messages than it delivers is detected."""
    fill(stores["mine"], records())
    marks = stores["mine"].watermarks("orders")
    check = PartitionCheck(0, PartitionChecksum(FIELDS))
    check.finish(marks[0], marks[0])
    assert check.problem == "30 messages are stored, but 0 were received"


@pytest.mark.parametrize("rows", [[0, 1, 1], [1, 0], [0, 1, 2, 1]])
def test_ids_that_do_not_ascend_are_a_problem(stores, rows):
    """An id that is repeated, or comes after a higher one, is named, even between two batches."""
    fill(stores["mine"], records())
    with stores["mine"].consumer("orders", start=mqplug.EARLIEST, partitions=[0]) as consumer:
        batch = consumer.receive_many(10, 10)
    marks = stores["mine"].watermarks("orders")[0]
    for cut in (1, len(rows)):
        check = PartitionCheck(0, PartitionChecksum(FIELDS))
        check.add(batch.take(rows[:cut], batch.next_position))
        if cut < len(rows):
            check.add(batch.take(rows[cut:], batch.next_position))
        check.finish(marks, marks)
        assert check.problem == f"the id {batch.id(rows[-1])} is not above the previous one"


def test_interrupted_it_says_how_far_it_came(capsys, stores, monkeypatch):
    """Ctrl-C during the run exits with 130, and the output says that nothing was verified."""
    fill(stores["mine"], records())
    add = PartitionCheck.add

    def interrupted(self, batch):
        if self.messages:
            raise KeyboardInterrupt
        add(self, batch)

    monkeypatch.setattr(PartitionCheck, "add", interrupted)
    monkeypatch.setattr(topic_check, "BATCH_MESSAGES", 10)
    assert run_command(["verify", stores["urls"][0], "orders"]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.match(r"interrupted after [12]0 messages: nothing was verified", printed.err)


def test_any_partition_needs_two_topics(capsys, stores):
    """--any-partition without a second topic is wrong usage."""
    assert run_command(["verify", stores["urls"][0], "orders", "--any-partition"]) == 2
