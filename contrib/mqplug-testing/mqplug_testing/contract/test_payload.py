"""HP: headers, unusual payloads, also if members share a log, and timestamps of foreign producers."""

from __future__ import annotations

import pickle
import random
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any, Final

from mqplug import EARLIEST, Client, InvalidTimestamp, Message, MessageId, Record, Retry, at_time
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.extensions import ForeignTimes
from mqplug_testing._case_tools.registry import Registry

case = Registry()

Headers = tuple[tuple[str, bytes | None], ...]


def sent_and_read(bench: Bench, *records: Record) -> list[Message]:
    """Send these records, and return the messages that arrive."""
    topic = bench.topic()
    for each in records:
        each.partition = 0
    ids = bench.filler(topic).send_many(records)
    found = bench.read(topic)
    bench.equal([message.id for message in found], ids)
    return found


def headers_kept(bench: Bench, *headers: Headers) -> None:
    """Check that each of these headers arrives as it was sent."""
    found = sent_and_read(bench, *[Record(b"value", headers=each) for each in headers])
    for message, wanted in zip(found, headers, strict=True):
        bench.equal(message.headers, wanted)


@case("HP-01")
def test_empty_value(bench: Bench) -> None:
    """An empty value arrives as an empty value."""
    found = sent_and_read(bench, Record(b""), Record(b"x"), Record(b""))
    bench.equal([message.value for message in found], [b"", b"x", b""])


@case("HP-02", needs=("null_payload",))
def test_no_value(bench: Bench) -> None:
    """No value and an empty value are different."""
    key = b"k" if bench.client.capabilities.keys else None
    found = sent_and_read(bench, Record(None, key), Record(b"", key), Record(None, key))
    bench.equal([message.value for message in found], [None, b"", None])


@case("HP-03")
def test_all_bytes(bench: Bench) -> None:
    """Values and keys may hold any byte, at any place."""
    values = [bytes(range(256)), b"\0", b"\0\0text\0", b"\xff\xfe\xc3\x28", bytes(range(255, -1, -1))]
    found = sent_and_read(bench, *[Record(value) for value in values])
    bench.equal([message.value for message in found], values)
    if bench.client.capabilities.keys:
        keys = [*values, b"", None, b"plain", b"%41", b"base64:AAAA", "Zürich".encode()]
        found = sent_and_read(bench, *[Record(b"v", key) for key in keys])
        bench.equal([message.key for message in found], keys)


@case("HP-04")
def test_looks_like_framing(bench: Bench) -> None:
    """A value that looks like the backend's own framing is treated as a value and nothing else."""
    inner = sent_and_read(bench, Record(b"inner"))[0]
    values = [
        pickle.dumps(inner), str(inner.id).encode(), b"\x0e\x01" + bytes(30), b"\0\0\0\x1a" + bytes(26),
        b"PAR1", b"MQPG", b"\x08\x01\x12\x04", b"null", b"None", b"{}", b"\r\n\r\n", b"mqplug", b"m1~",
    ]  # fmt: skip
    found = sent_and_read(bench, *[Record(value) for value in values])
    bench.equal([message.value for message in found], values)


@case("HP-05", needs=("headers",))
def test_headers(bench: Bench) -> None:
    """Headers arrive in order; a name may occur twice if that is declared."""
    headers_kept(bench, (("z", b"1"), ("a", b"2"), ("m", b"3")), (("only", b"one"),))
    if bench.client.capabilities.header_duplicates:
        headers_kept(bench, (("a", b"1"), ("b", b"2"), ("a", b"3"), ("a", b"1")), (("x", b""), ("x", None)))


@case("HP-06", needs=("headers",))
def test_odd_headers(bench: Bench) -> None:
    """The names and values of headers may hold any character."""
    names = ["/", ".", "..", "'", '"', " ", "a b", "Zürich", "日本", "a:b", "a=b&c", "%2F", "🚀", "\\", "{}", "UPPER"]
    names += [chr(code) for code in range(1, 128)]
    headers_kept(bench, *[((name, name.encode()),) for name in names])


@case("HP-07", needs=("headers",))
def test_empty_headers(bench: Bench) -> None:
    """An empty value, None, an empty name, and no headers are all different."""
    headers_kept(bench, (("a", b""),), (("a", None),), (), (("a", b""), ("b", None), ("c", b"c")), (("", b"v"),))


@case("HP-08", needs=("headers",))
def test_binary_headers(bench: Bench) -> None:
    """The values of headers are bytes, and need not be text."""
    headers_kept(bench, (("binary", bytes(range(256))), ("latin", b"\xfc"), ("nul", b"\0")))


@case("HP-09", needs=("headers",))
def test_reserved_names(bench: Bench) -> None:
    """No name is reserved: a header named as one of the backend's own arrives, and overwrites nothing."""
    names = [
        "mqplug", "mqplug.key", "mqplug.headers", "mqplug-key", "mqplug-null", "__mqplug", "_mqplug_", "mqplug:b64",
        "__key__", "key", "value", "id", "partition", "timestamp", "REAL_TOPIC", "ORIGIN_MESSAGE_ID", "null_value",
    ]  # fmt: skip
    key = b"the key" if bench.client.capabilities.keys else None
    found = sent_and_read(bench, *[Record(b"value", key, ((name, b"mine"),)) for name in names])
    for name, message in zip(names, found, strict=True):
        bench.equal((message.value, message.key, message.headers), (b"value", key, ((name, b"mine"),)))


@case("HP-10", needs=("headers",))
def test_many_headers(bench: Bench) -> None:
    """A hundred headers, and one of 8 KiB, arrive; the declared limits permit them."""
    able = bench.client.capabilities
    bench.that(able.headers_max >= 100 and able.header_max_bytes >= 8192, "100 headers, 8192 bytes in one")
    headers_kept(bench, tuple((f"name-{n}", b"%d" % n) for n in range(100)), (("long", bytes(8192)),))


@case("HP-11", needs=("headers",))
def test_wrong_headers(bench: Bench) -> None:
    """Names of headers are ``str``, values ``bytes`` or None; anything else raises ``TypeError`` before it is sent."""
    topic = bench.topic()
    wrong: list[Any] = [[("a", "text")], [("a", 1)], [(b"a", b"b")], [("a",)], ["ab"], {"a": 1}, 7]
    for headers in wrong:
        with bench.raises(TypeError):
            bench.filler(topic).send(b"value", headers=headers)
    bench.equal(bench.read(topic), [])


@case("HP-12")
def test_log_time(bench: Bench) -> None:
    """``log_time`` is UTC, does not go back along the log, and can be used for a seek."""
    topic = bench.topic()
    for _ in range(5):
        bench.fill(topic, 1)
        time.sleep(0.003)
    found = bench.read(topic)
    times = [message.log_time for message in found]
    bench.equal([moment.utcoffset() for moment in times], [timedelta(0)] * 5)
    bench.equal(times, sorted(times))
    if bench.client.capabilities.seek_time:
        reader = bench.reader(topic, at_time(times[3]))
        bench.delivers(reader, [message.id for message in found if message.log_time >= times[3]])


@case("HP-13", hooks=("codecs",))
def test_compressed(bench: Bench) -> None:
    """Messages compressed in transit, by any codec, arrive as they were sent, also for readers that know none."""
    values = [b"", b"x", bytes(100_000), bytes(range(256)) * 100, random.Random(3).randbytes(10_000)]
    for codec, connect in (bench.harness.codecs or {}).items():
        topic = bench.topic()
        with connect() as client, client.producer(topic) as producer:
            ids = producer.send_many([Record(value, partition=0) for value in values])
            bench.equal([message.value for message in client.read(topic)], values, codec)
        found = bench.read(topic)
        bench.equal([(message.id, message.value) for message in found], list(zip(ids, values, strict=True)), codec)


@case("HP-14")
def test_buffers(bench: Bench) -> None:
    """A ``bytearray`` or ``memoryview``, which could change in transit, raises a ``TypeError`` with a hint."""
    topic = bench.topic()
    for wrong in (bytearray(b"x"), memoryview(b"x")):
        with bench.raises(TypeError) as caught:
            bench.filler(topic).send(wrong)  # type: ignore[arg-type]
        bench.that("bytes(" in str(caught.value), "the error says what to write instead")
    bench.equal(bench.read(topic), [])


@case("HP-15")
def test_text(bench: Bench) -> None:
    """A ``str`` as value or key raises a ``TypeError`` that says to encode it."""
    topic = bench.topic()
    wrong: list[dict[str, Any]] = [{"value": "text"}, {"value": b"x", "key": "text"}]
    for each in wrong:
        with bench.raises(TypeError) as caught:
            bench.filler(topic).send(**each)
        bench.that("encode" in str(caught.value), "the error says what to write instead")
    bench.equal(bench.read(topic), [])


@case("HP-16")
def test_messages(bench: Bench) -> None:
    """A message cannot be changed, and a pickled one is equal to it."""
    able = bench.client.capabilities
    whole = Record(b"value", b"key" if able.keys else None, (("a", b"b"),) if able.headers else ())
    for message in sent_and_read(bench, whole, Record(b"")):
        copy = pickle.loads(pickle.dumps(message))
        bench.equal(copy, message)
        bench.equal(
            (copy.id, copy.topic, copy.headers, copy.timestamp, copy.log_time, copy.attempt),
            (message.id, message.topic, message.headers, message.timestamp, message.log_time, message.attempt),
        )
        with bench.raises(AttributeError):
            message.value = b"changed"  # type: ignore[misc]


@case("HP-17", needs=("shared",))
def test_shared(bench: Bench) -> None:
    """If members share a log, unusual values, keys and headers arrive as they were sent, each time they come."""
    arrive(bench, "shared")


@case("HP-18", needs=("key_shared",))
def test_key_shared(bench: Bench) -> None:
    """If members share a log by key, unusual values, keys and headers arrive as they were sent, each time."""
    arrive(bench, "key_shared")


def arrive(bench: Bench, mode: str) -> None:
    """Check unusual messages that two members get: each is returned once, if possible, and then acked."""
    topic, group = bench.topic(), bench.name()
    records = odd_records(bench)
    ids = list(bench.filler(topic).send_many(records))
    ids += [bench.filler(topic).send_many([record])[0] for record in records]
    wanted = dict(zip(ids, [parts_of(record) for record in records * 2], strict=True))
    members = [bench.member(topic, group, mode=mode) for _ in range(2)]
    again, done = set[MessageId](), set[MessageId]()

    def poll() -> bool:
        for member in members:
            for message in member.receive_many(20, bench.waiting.poll):
                bench.equal(parts_of(message), wanted.get(message.id))
                if bench.client.capabilities.nack and message.id not in again:
                    again.add(message.id)
                    member.nack(message, delay=0)
                else:
                    done.add(message.id)
                    member.ack(message)
        return len(done) == len(ids)

    bench.wait(poll, "all came, and were acked")


def odd_records(bench: Bench) -> list[Record]:
    """Return all combinations of empty and missing values, keys and headers that the backend has."""
    able = bench.client.capabilities
    values = [b"", bytes(range(256)), *([None] if able.null_payload else [])]
    keys = [None, b"", b"key", b"\xff\0"] if able.keys else [None]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [()]
    if able.headers:
        headers += [(("", b""), ("none", None)), (("/", b"\xff"),)]
    return [Record(*each, partition=0) for each in product(values, keys, headers)]


def parts_of(one: Record | Message) -> tuple[Any, ...]:
    """Return the fields that the sender sets."""
    return one.value, one.key, tuple(one.headers)


MICROSECONDS: Final = 1_700_000_000_000_000  # as sent by a producer that takes them for milliseconds
NANOSECONDS: Final = 1_700_000_000_000_000_000


def _extended(bench: Bench, *times: int) -> Client:
    assert bench.harness.extended is not None
    return bench.connect(partial(bench.harness.extended, [ForeignTimes(*times)]))


@case("HP-19", hooks=("extended",))
def test_foreign_times(bench: Bench) -> None:
    """A message with any time arrives, and so does its batch; an impossible time raises ``InvalidTimestamp``."""
    topic, ids = bench.filled(4)
    times = [MICROSECONDS, NANOSECONDS, -5]
    with _extended(bench, *times).consumer(topic, start=EARLIEST) as reader:
        messages = bench.delivers(reader, ids)
    for message, milliseconds in zip(messages, times[:2], strict=False):
        for name in ("timestamp", "log_time"):
            with bench.raises(InvalidTimestamp) as caught:
                getattr(message, name)
            bench.equal(getattr(caught.value, "milliseconds", None), milliseconds)
        bench.equal(pickle.loads(pickle.dumps(message)), message)
        bench.that(topic in repr(message), "it has a repr")
    before = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=5)
    bench.equal((messages[2].timestamp, messages[2].log_time), (before, before))


@case("HP-20", needs=("timestamps_producer",))
def test_impossible_times(bench: Bench) -> None:
    """A time before 1970 or beyond the year 9999 raises ``ValueError`` when it is sent, and nothing is stored."""
    topic = bench.topic()
    out = bench.filler(topic)
    for moment in (-1, 253_402_300_800_000, MICROSECONDS, NANOSECONDS, 2**70, datetime(1969, 12, 31, tzinfo=UTC)):
        with bench.raises(ValueError):
            out.send(b"x", timestamp=moment)
        with bench.raises(ValueError):
            out.submit(b"x", timestamp=moment)
        with bench.raises(ValueError):
            out.send_many([Record(b"x"), Record(b"x", timestamp=moment)])
    last = out.send(b"y", partition=0)
    bench.equal([message.id for message in bench.read(topic)], [last])


@case(
    "HP-21", needs=("dead_letter", "ordered", "headers", "durable_groups", "timestamps_producer"), hooks=("extended",)
)
def test_foreign_dead_letters(bench: Bench) -> None:
    """A message whose time cannot be sent becomes a dead letter with the log's time, and its own in a header."""
    topic, dead = bench.topic(), bench.topic()
    ids = bench.fill(topic, 2)
    client = _extended(bench, NANOSECONDS, -5)
    with client.consumer(topic, group=bench.name(), retry=Retry(1, delay=0), dead_letter=dead) as member:
        for message in bench.delivers(member, ids):
            member.nack(message)
        letters = bench.take(bench.reader(dead), 2)
        bench.wait(lambda: member.statistics().dead_lettered == 2, "both count as dead letters")
    times = [dict(letter.headers).get("mqplug-dead-timestamp") for letter in letters]
    bench.equal(times, [b"%d" % NANOSECONDS, b"-5"])
    now = datetime.now(UTC)
    bench.that(all(abs(letter.timestamp - now) < timedelta(hours=1) for letter in letters), "they have the log's time")
