"""``mqplug consume``: what it reads, how it writes it, and what it leaves in the backend."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

import mqplug
from mqplug import Record
from mqplug_cli import run_command

TIME = 1_700_000_000_000


@pytest.fixture
def store():
    """The URL and a client of a store in memory with five messages in the topic "orders" of two partitions."""
    url = f"memory://{uuid4().hex}"
    with mqplug.connect(url) as mq:
        mq.create_topic("orders", partitions=2)
        mq.create_topic("empty")
        with mq.producer("orders") as out:
            out.send_many(
                [
                    Record(b"two chairs", b"ann", [("city", b"Rome"), ("city", None)], TIME, 0),
                    Record(b"a table", b"bob", [("city", b"Oslo")], TIME + 2000, 0),
                    Record(None, b"ann", (), TIME + 4000, 0),
                    Record(b"\xff\n", b"", (), TIME + 1000, 1),
                    Record("ä lamp".encode(), None, (), TIME + 3000, 1),
                ]
            )
        yield url, mq


@pytest.fixture
def consume(store, capfdbinary):
    """Call ``mqplug consume`` and return its exit code and its output."""

    def call(*arguments):
        code = run_command(["consume", store[0], *arguments])
        found = capfdbinary.readouterr()
        assert code in {0, 3} or found.out == b""
        return code, found.out if code in {0, 3} else found.err.decode()

    return call


def test_values_are_written_as_they_are(consume):
    """By default each value is a line, up to the last stored message."""
    assert consume("orders", "-p", "0") == (0, b"two chairs\na table\n\n")
    assert consume("orders", "-p", "1") == (0, "\xff\n\nä lamp\n".encode("latin-1").replace(b"\xe4", "ä".encode()))


def test_nothing_read_is_exit_code_3(consume):
    """An empty topic, and a filter that no message passes, exit with 3."""
    assert consume("empty") == (3, b"")
    assert consume("orders", "--filter-key", "nobody") == (3, b"")


def test_envelopes(store, consume):
    """--json writes each message as an object on a line."""
    _, mq = store
    _, written = consume("orders", "--json", "-p", "0")
    first, second, third = map(json.loads, written.splitlines())
    ids = [str(each.id) for each in mq.read("orders", partitions=[0])]
    assert first == {
        "topic": "orders", "partition": 0, "offset": "0", "timestamp": TIME, "key": "ann", "value": "two chairs",
        "headers": [{"name": "city", "value": "Rome"}, {"name": "city", "value": None}], "id": ids[0],
    }  # fmt: skip
    assert (second["offset"], second["id"]) == ("1", ids[1])
    assert (third["value"], third["headers"]) == (None, [])
    binary, text = map(json.loads, consume("orders", "-o", "json", "-p", "1")[1].splitlines())
    assert (binary["value_base64"], binary["key"], text["value"], text["key"]) == ("/wo=", "", "ä lamp", None)


def test_a_table(consume):
    """-o table writes columns under their names; unprintable bytes are escaped."""
    _, written = consume("orders", "-o", "table", "-p", "1")
    assert written.decode().splitlines() == [
        "topic   partition  offset  timestamp                 key  value",
        "orders  1          0       2023-11-14T22:13:21.000Z       \\xff\\n",
        "orders  1          1       2023-11-14T22:13:23.000Z       ä lamp",
    ]


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%t %p %o %T %k %s\\n", b"orders 0 0 1700000000000 ann two chairs\n"),
        ("%K/%S/%h\\t%%\\x41\\x0a\\\\", b"3/10/city=Rome,city=NULL\t%A\n\\"),
        ("%R%s", b"\0\0\0\x0atwo chairs"),
    ],
)
def test_format_strings(consume, template, written):
    """--format has the tokens and escapes of kcat."""
    assert consume("orders", "-p", "0", "-n", "1", "--format", template) == (0, written)


def test_format_of_tombstones_and_missing_keys(consume):
    """A null key or value has the length -1 and no text."""
    assert consume("orders", "--tail", "2", "--format", "%k:%K:%s:%S:%R|") == (
        0,
        ":-1:ä lamp:7:\0\0\0\x07|ann:3::-1:\xff\xff\xff\xff|".encode("latin-1").replace(b"\xe4", "ä".encode()),
    )


def test_keys_and_values(consume):
    """-K writes key, separator and value, whatever characters the text has."""
    assert consume("orders", "-p", "0", "-n", "1", "-K", "%\\") == (0, b"ann%\\two chairs\n")


@pytest.mark.parametrize(
    ("decode", "written"),
    [("hex", b"ff0a\n"), ("base64", b"/wo=\n"), ("utf8", b"\\xff\\n\n"), ("json", b"\\xff\\n\n")],
)
def test_decoding(consume, decode, written):
    """--decode shows values in another form."""
    assert consume("orders", "-p", "1", "-n", "1", "--decode", decode) == (0, written)


def test_values_that_are_json(store, consume):
    """--decode json embeds a document in the envelope, and writes it on one line elsewhere."""
    with store[1].producer("orders") as out:
        out.send(b'{\n "a": ["\\ud800", 1]\n}', partition=1)
    _, written = consume("orders", "-p", "1", "--from", "-1", "--decode", "json", "--json")
    assert json.loads(written)["value_json"] == {"a": ["\ud800", 1]}
    assert consume("orders", "-p", "1", "--from", "-1", "--decode", "json") == (0, b'{"a":["\\ud800",1]}\n')


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--filter-key", "a*"], ["ann", "ann"]),
        (["--filter-key", "?ob", "--filter-key", "ann"], ["ann", "bob", "ann"]),
        (["--filter-value", "*chairs"], ["ann"]),
        (["--filter-header", "city=O*"], ["bob"]),
        (["--filter-header", "town=O*", "--filter-header", "city=R*"], ["ann"]),
        (["--filter-header", "c*=*o*", "--filter-key", "ann"], ["ann"]),
        (["--filter-key", "ann", "-n", "1"], ["ann"]),
    ],
)
def test_filters(consume, options, keys):
    """A message passes if it matches a pattern of each given kind."""
    code, written = consume("orders", "--format", "%k\\n", *options)
    assert (code, written.decode().split()) == (0, keys)


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["--from", "-1"], {"", "ä lamp"}),
        (["--from", f"@{TIME + 2000}"], {"a table", "", "ä lamp"}),
        (["--to", f"@{TIME + 2000}", "-p", "0"], {"two chairs"}),
        (["--from", "@2023-11-14T22:13:23Z", "-p", "1"], {"ä lamp"}),
        (["--tail", "3"], {"a table", "ä lamp", ""}),
    ],
)
def test_places(consume, options, values):
    """--from, --to and --tail choose a part of the log."""
    code, written = consume("orders", "--format", "%s|", *options)
    assert (code, set(written.decode().removesuffix("|").split("|"))) == (0, values)


def test_the_tail_is_in_order_of_time(consume):
    """--tail merges the partitions by timestamp."""
    assert consume("orders", "--tail", "4", "--format", "%p")[1] == b"1010"


def test_ids_and_positions_name_their_partition(store, consume):
    """--from with an id reads only its partition, that message first; --to ends before its message."""
    _, mq = store
    message = list(mq.read("orders", partitions=[0]))[1]
    assert consume("orders", "--from", str(message.id)) == (0, b"a table\n\n")
    assert consume("orders", "--to", str(message.id)) == (0, b"two chairs\n")
    high = mq.watermarks("orders")[0].high
    assert consume("orders", "--from", str(message.id), "--to", str(high)) == (0, b"a table\n\n")


def test_offsets_need_a_partition(store, consume):
    """`#1` is the message at offset 1 of the partition that -p names, as other tools show it."""
    assert consume("orders", "--from", "#1", "-p", "0") == (0, b"a table\n\n")
    assert consume("orders", "--from", "#1", "--to", "#2", "-p", "0") == (0, b"a table\n")
    for arguments in (["orders"], ["orders", "-p", "0", "-p", "1"], ["orders", "empty", "-p", "0"]):
        code, complaint = consume(*arguments, "--from", "#1")
        assert (code, "An offset belongs to one partition" in complaint) == (2, True)
    assert "has 1 numbers: #0" in consume("orders", "--from", "#1:0", "-p", "0")[1]
    assert "orders has no partition 7" in consume("orders", "--from", "#1", "-p", "7")[1]
    assert "without --group" in consume("orders", "--from", "#1", "--group", "billing")[1]


def test_several_topics(store, consume):
    """Several topics may be listed, or matched by a pattern."""
    with store[1].producer("empty") as out:
        out.send(b"x")
    assert consume("orders", "empty", "--format", "%t\\n", "--filter-value", "[xa]*") == (0, b"orders\nempty\n")
    assert consume("--matching", "em.*") == (0, b"x\n")


def test_a_group_goes_on(store, consume):
    """With --group the written messages are acked, and the next call continues after them."""
    assert consume("orders", "--group", "billing", "--filter-key", "bob", "-n", "1", "--format", "%s\\n") == (
        0,
        b"a table\n",
    )
    code, written = consume("orders", "--group", "billing", "--from", "stored", "--format", "%p:%S\\n")
    assert (code, sorted(written.split())) == (0, [b"0:-1", b"1:2", b"1:7"])
    assert consume("orders", "--group", "billing") == (3, b"")
    assert sum(store[1].lag("orders", group="billing").values()) == 0


def test_without_a_group_nothing_is_left(store, consume):
    """Reading without --group creates no group."""
    consume("orders")
    consume("orders", "--tail", "2")
    assert store[1].groups() == []


def test_a_missing_topic(consume):
    """A missing topic is an error that names it."""
    code, said = consume("odrers")
    assert code == 1
    assert said.startswith("error: there is no topic 'odrers'")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["orders", "--matching", "x"],
        ["--matching", "("],
        ["orders", "--from", "somewhere"],
        ["orders", "--from", "stored"],
        ["orders", "--group", "g", "-p", "0"],
        ["orders", "--tail", "1", "--group", "g"],
        ["orders", "--follow", "--to", "latest"],
        ["orders", "--format", "%y"],
        ["orders", "--format", "%s", "--json"],
        ["orders", "--filter-header", "x"],
        ["orders", "-n", "0"],
        ["orders", "-p", "7"],
    ],
)
def test_wrong_usage(consume, arguments):
    """Options that contradict each other, or that are invalid, are wrong usage."""
    code, said = consume(*arguments)
    assert code == 2
    assert "Error: " in said
