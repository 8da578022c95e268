"""``mqplug produce``: how it parses its input, and how it reports the outcome."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

import mqplug
from mqplug_cli import run_command


@pytest.fixture
def store():
    """The URL and a client of a store in memory with the topic "orders" of two partitions."""
    url = f"memory://{uuid4().hex}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
        yield url, mq


@pytest.fixture
def produce(store, tmp_path, monkeypatch, capfd):
    """Call ``mqplug produce orders`` with an input; return its exit code, its output, and the messages in order."""
    url, mq = store

    def call(given, *options, topic="orders"):
        path = tmp_path / "stdin"
        path.write_bytes(given)
        with path.open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            code = run_command(["produce", url, topic, *options])
        found = sorted(mq.read(topic), key=lambda each: (each.timestamp, each.id.coordinates))
        return code, capfd.readouterr().err, found

    return call


def values(messages):
    """Return the values of messages."""
    return [message.value for message in messages]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"\n\r\n", [b"", b"\r"]),
        (b" \xff\x00\x85\x0b \n", [b" \xff\x00\x85\x0b "]),
        (b"", []),
    ],
)
def test_each_line_is_a_message_with_its_bytes_kept(produce, given, sent):
    """A line is all bytes between two line breaks, whatever they are; the last one needs none."""
    code, said, found = produce(given, "--partition", "0")
    assert (code, values(found)) == (0, sent)
    assert said == f"stored {len(sent)} message{'' if len(sent) == 1 else 's'}\n"


def test_a_line_longer_than_a_block(produce):
    """A line may be longer than the block that is read at once."""
    long = b"x" * 700_000
    assert values(produce(b"a\n" + long + b"\nb\n", "--partition", "0")[2]) == [b"a", long, b"b"]


def test_keys_before_a_separator(produce):
    """-K splits key and value at the first separator; a line without one is a value."""
    _, _, found = produce(b"ann::two::chairs\n::x\nbob\n", "-K", "::", "--partition", "1")
    assert [(each.key, each.value) for each in found] == [(b"ann", b"two::chairs"), (b"", b"x"), (None, b"bob")]


def test_tombstones(produce):
    """With -Z an empty value is null, and so is an empty key."""
    _, _, found = produce(b"ann:\n:x\n\n", "-K", ":", "-Z", "--partition", "0")
    assert [(each.key, each.value) for each in found] == [(b"ann", None), (None, b"x"), (None, None)]


def test_nul_separated_input(produce):
    """With -0 a message may contain line breaks."""
    assert values(produce(b"a\nb\0c\0", "-0", "--partition", "0")[2]) == [b"a\nb", b"c"]


def test_key_headers_and_partition_of_each_message(produce):
    """--key, -H and --partition apply to each message; a header may be repeated."""
    _, _, found = produce(b"a\nb\n", "--key", "k", "-H", "h=1", "-H", "h=2=3", "-H", "e=", "--partition", "1")
    headers = (("h", b"1"), ("h", b"2=3"), ("e", b""))
    assert [(each.key, each.headers, each.partition) for each in found] == [(b"k", headers, 1)] * 2


def test_files_are_a_message_each(produce, tmp_path):
    """--file sends the whole content of a file as one message."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() + b"\n\xff\n")
    _, _, found = produce(b"", "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"), "--partition", "0")
    assert values(found) == [b"a\n\xff\n", b"b\n\xff\n"]


def test_templates(produce):
    """--count fills in the fields of value, key and headers for each message."""
    options = ["--count", "3", "--value", "{{ n }}/{{random 4}}/{{uuid}}", "--key", "k{{n}}", "-H", "t={{ms}}"]
    _, _, found = produce(b"unread", *options, "--partition", "0")
    assert [each.key for each in found] == [b"k1", b"k2", b"k3"]
    numbers, letters, ids = zip(*(each.value.split(b"/") for each in found), strict=True)
    assert (numbers, {len(each) for each in letters}, len(set(ids))) == ((b"1", b"2", b"3"), {4}, 3)
    assert all(abs(int(each.headers[0][1]) - each.timestamp.timestamp() * 1000) < 5000 for each in found)


def test_a_value_without_a_count_is_no_template(produce):
    """--value without --count is sent once, as it is."""
    assert values(produce(b"", "--value", "{{n}}")[2]) == [b"{{n}}"]


def test_the_rate_is_kept(produce):
    """--rate sends that number of messages per second."""
    _, _, found = produce(b"", "--count", "4", "--value", "x", "--rate", "20", "--partition", "0")
    times = [each.timestamp.timestamp() for each in found]
    assert times[-1] - times[0] >= 0.14


def test_a_missing_topic_is_an_error(produce, store):
    """Without --create a missing topic is an error that names it; with it the topic is created."""
    url, mq = store
    assert run_command(["produce", url, "other", "--value", "x"]) == 1
    assert "other" not in mq.topics()
    assert values(produce(b"x\n", "--create", topic="other")[2]) == [b"x"]


def envelope(**more):
    """Return a line with an envelope."""
    return json.dumps({"value": "x", **more}).encode() + b"\n"


def test_bad_lines_are_named_and_the_others_sent(produce):
    """A line that is no envelope is not sent; its number and the reason are reported, and the exit code is 1."""
    lines = [
        envelope(), b"nope\n", b'{"key":"k"}\n', envelope(value=1), envelope(value_base64="eA=="),
        envelope(timestamp=-1), envelope(partition=2), envelope(headers=[{"value": "x"}]), envelope(),
    ]  # fmt: skip
    code, said, found = produce(b"".join(lines), "--json")
    assert (code, values(found)) == (1, [b"x", b"x"])
    assert said.splitlines() == [
        "error: line 2: not JSON: Expecting value at character 1",
        'error: line 3: "value" is missing; a tombstone has "value": null',
        'error: line 4: "value" must be a string or null, not 1',
        'error: line 5: expected only one of "value" and "value_base64"',
        'error: line 6: "timestamp" must be milliseconds since 1970, not -1',
        "stored 2 messages; 7 not stored: lines 2, 3, 4, 5, 6, 7, 8",
    ]


def test_numbers_of_bad_lines_are_bounded(produce):
    """The first of many bad lines are named, and the others counted."""
    code, said, _ = produce(b"nope\n" * 3000, "--json")
    assert code == 1
    assert said.endswith("19, 20 and 2,980 more\n")


def test_repartition(produce):
    """--repartition chooses partitions by key instead of taking those of the envelopes."""
    code, _, found = produce(envelope(partition=7), "--json", "--repartition")
    assert (code, values(found)) == (0, [b"x"])


def test_a_message_that_is_too_large_does_not_stop_the_others(store, produce):
    """A message that the backend refuses for its size is named by its line, and the next ones are sent."""
    _, mq = store
    most = mq.capabilities.message_max_bytes
    code, said, found = produce(b"a\n" + b"x" * (most + 1) + b"\nb\n", "--partition", "0")
    assert (code, values(found)) == (1, [b"a", b"b"])
    assert said.startswith(f"error: line 2: the message has {most + 1} bytes")
    assert said.endswith("stored 2 messages; 1 not stored: line 2\n")


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "3"],
        ["--value", "{{what}}", "--count", "2"],
        ["--value", "x", "--file", __file__],
        ["--value", "x", "-K", ":"],
        ["-K", ""],
        ["-K", ":", "--json"],
        ["-H", "novalue"],
        ["--partition", "2"],
        ["--repartition"],
        ["--rate", "0"],
        ["--file", "/nowhere"],
    ],
)
def test_wrong_usage(produce, options):
    """Options that contradict each other, or that are invalid, are wrong usage, and nothing is sent."""
    code, said, found = produce(b"x\n", *options)
    assert (code, found) == (2, [])
    assert "Traceback" not in said
