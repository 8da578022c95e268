"""Capabilities: native, added by the core, or absent, and the page that says so."""

from __future__ import annotations

import ast
import re
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import attrs
import pytest
from limited_memory import STAGED, narrowed

import mqplug
from mqplug import EARLIEST, Capabilities
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeTopic,
    DescribeTopics,
    DiscardStaged,
    Ingest,
    ListGroups,
    ListTopics,
    Trim,
    unsupported,
)

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/capabilities.md").read_text()
SOURCES = [*ROOT.glob("mqplug/**/*.py"), *ROOT.glob("plugins/*/mqplug_*/**/*.py")]
ALL_KNOW = {CreateTopic, DescribeTopic, DescribeTopics}
HEADS = {"memory": "memory", "rocksmq": "RocksMQ", "kafka": "Kafka", "pulsar": "Pulsar"}
INSTALLED = sorted({point.name for point in entry_points(group="mqplug.backends")} & set(HEADS))
HEAD_OF_CALLS = "where it is absent, `Unsupported` comes from"
WORDS = {"native": "native", "core": "core", "absent": "-"}

FLAGS = frozenset(field.name for field in attrs.fields(Capabilities) if isinstance(field.default, bool))
PROVIDED = [
    name
    for line in PAGE.split("## What the core provides\n")[1].split("\n## ")[0].splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`(\w+)`", line.split(" | ")[0])
]
"""The capabilities that the core adds, as the page lists them."""


def shown_by_client(**able):
    """Return the capabilities of a client whose backend has only these, and what supports each."""
    with narrowed(**{**dict.fromkeys(FLAGS, False), **able}) as (mq, _):
        return mq.capabilities, {name: mq.support(name) for name in FLAGS}


# added by the core -----------------------------------------------------------------------------------------


def test_the_core_provides():
    """If a group can be joined, the core adds exactly the capabilities on the page; support reports them as its own."""
    capabilities, support = shown_by_client(groups=True, ordered=True)
    assert sorted(name for name in FLAGS if support[name] == "core") == sorted(PROVIDED)
    assert all(getattr(capabilities, name) == (support[name] != "absent") for name in FLAGS)


@pytest.mark.parametrize("name", PROVIDED)
def test_what_is_native_stays_native(name):
    """A capability that the backend has is reported as native."""
    assert shown_by_client(groups=True, ordered=True, **{name: True})[1][name] == "native"


@pytest.mark.parametrize("mode", ["ordered", "exclusive", "shared", "key_shared"])
def test_any_mode_will_do(mode):
    """The core adds the capabilities of members if a group can be joined in any mode, and none without groups."""
    assert shown_by_client(groups=True, **{mode: True})[0].nack
    assert not shown_by_client(**{mode: True})[0].nack
    assert not shown_by_client(groups=True)[0].nack


def test_acks_of_single_messages_need_room():
    """Without stored ranges of acks, individual_ack is not declared."""
    without_room, _ = shown_by_client(groups=True, ordered=True, acked_ranges_max=0)
    assert not without_room.individual_ack
    assert without_room.cumulative_ack


def test_nothing_is_taken_away():
    """A client's capabilities include all native ones, and its limits are the backend's."""
    capabilities, support = shown_by_client(transactions=True, message_max_bytes=7)
    assert capabilities.transactions
    assert capabilities.message_max_bytes == 7
    assert {name for name in FLAGS if support[name] == "native"} == {"transactions"}


# added by the core on a backend that has only ordered groups -------------------------------------------------


@pytest.fixture
def plain():
    """A client of such a backend, with three messages in the topic "orders" and a topic for dead letters."""
    absent = dict.fromkeys([*PROVIDED, "exclusive", "shared", "key_shared"], False)
    with narrowed(**absent) as (mq, _):
        for topic in ("orders", "dead"):
            mq.create_topic(topic)
        with mq.producer("orders") as out:
            out.send_many([b"1", b"2", b"3"])
        yield mq


def values(consumer, count):
    """Return the next values of this number."""
    return [consumer.receive(5).value for _ in range(count)]


def test_core_auto_create_topics(plain):
    """A missing topic is created on request."""
    with plain.producer("new", create=True) as out:
        out.send(b"x")
    assert [message.value for message in plain.read("new")] == [b"x"]


def test_core_pause_resume(plain):
    """A paused partition delivers nothing, and then continues where it stopped."""
    with plain.consumer("orders", start=EARLIEST) as consumer:
        consumer.pause()
        assert consumer.receive(0.05) is None
        consumer.resume()
        assert values(consumer, 3) == [b"1", b"2", b"3"]


def test_core_nack(plain):
    """A nacked message comes again, as another attempt."""
    with plain.consumer("orders", group="billing") as consumer:
        message = consumer.receive(5)
        consumer.nack(message, delay=0)
        again = consumer.receive(5)
        assert (again.id, again.attempt) == (message.id, 2)


def test_core_dead_letter(plain):
    """A message without attempts left goes to the other topic, and the next one comes."""
    with plain.consumer("orders", group="billing", retry=mqplug.Retry(1), dead_letter="dead") as consumer:
        consumer.nack(consumer.receive(5))
        assert values(consumer, 1) == [b"2"]
    assert [message.value for message in plain.read("dead")] == [b"1"]


def test_core_ack_timeout(plain):
    """A member that takes too long loses its work to another."""
    with plain.consumer("orders", group="billing", max_processing=0.3) as slow:
        assert values(slow, 1) == [b"1"]
        with plain.consumer("orders", group="billing") as other:
            assert values(other, 1) == [b"1"]


def test_core_auto_commit(plain):
    """An ack is stored without a commit."""
    with plain.consumer("orders", group="billing") as consumer:
        consumer.ack(consumer.receive(5))
        end = time.monotonic() + 10
        while plain.lag("orders", group="billing") != {0: 2}:
            assert time.monotonic() < end, "the ack was not stored by itself"
            time.sleep(0.02)


def test_core_commit(plain):
    """An ack is stored when commit returns."""
    with plain.consumer("orders", group="billing") as consumer:
        consumer.ack(consumer.receive(5))
        consumer.commit()
        assert plain.lag("orders", group="billing") == {0: 2}


def test_core_cumulative_ack(plain):
    """One ack covers all messages up to it."""
    with plain.consumer("orders", group="billing") as consumer:
        consumer.ack_through([consumer.receive(5) for _ in range(2)][1])
    with plain.consumer("orders", group="billing") as consumer:
        assert values(consumer, 1) == [b"3"]


def test_core_individual_ack(plain):
    """An ack out of order is kept, and the messages in the gap come again."""
    with plain.consumer("orders", group="billing") as consumer:
        consumer.ack([consumer.receive(5) for _ in range(2)][1])
    with plain.consumer("orders", group="billing") as consumer:
        assert values(consumer, 2) == [b"1", b"3"]


@pytest.mark.parametrize("name", PROVIDED)
def test_all_that_the_core_claims_is_tested(plain, name):
    """Each capability that the core adds has a test here on a backend without it."""
    assert plain.support(name) == "core"
    assert f"test_core_{name}" in globals()


# Unsupported -----------------------------------------------------------------------------------------------


def send(mq, value, **fields):
    """Send one message."""
    with mq.producer("orders") as out:
        out.send(value, **fields)


CALLS = {
    "alter_topic": lambda mq: mq.alter_topic("orders", retention=60),
    "delete_topic": lambda mq: mq.delete_topic("orders"),
    "list_topics": lambda mq: mq.topics(),
    "topic_patterns": lambda mq: mq.consumer(mqplug.matching("or.*"), start=EARLIEST),
    "add_partitions": lambda mq: mq.add_partitions("orders", 2),
    "trim": lambda mq: mq.trim("orders", {}),
    "partitions": lambda mq: mq.create_topic("wide", partitions=2),
    "retention": lambda mq: mq.create_topic("short", retention=60),
    "groups": lambda mq: mq.groups(),
    "durable_groups": lambda mq: mq.reset_group("billing", "orders", EARLIEST),
    "ordered": lambda mq: mq.consumer("orders", group="billing"),
    "exclusive": lambda mq: mq.consumer("orders", group="billing", mode="exclusive"),
    "shared": lambda mq: mq.consumer("orders", group="billing", mode="shared"),
    "key_shared": lambda mq: mq.consumer("orders", group="billing", mode="key_shared"),
    "seek_time": lambda mq: mq.consumer("orders", start=mqplug.at_time(0)),
    "advance": lambda mq: mq.advance(mq.watermarks("orders")[0].low, 1),
    "null_payload": lambda mq: send(mq, None),
    "headers": lambda mq: send(mq, b"x", headers={"a": b"b"}),
    "keys": lambda mq: send(mq, b"x", key=b"k"),
    "timestamps_producer": lambda mq: send(mq, b"x", timestamp=1),
    "staged_ingest": lambda mq: mq.stage("orders"),
    "transactions": lambda mq: mq.transaction("biller", "orders"),
}
MORE_CALLS = [
    ("retention", lambda mq: mq.create_topic("short", retention_bytes=60)),
    ("retention", lambda mq: mq.alter_topic("orders", retention=60)),
    ("groups", lambda mq: mq.lag("orders", group="billing")),
    ("groups", lambda mq: mq.describe_group("billing")),
    ("multi_node", lambda mq: mq.describe_cluster()),
    ("groups", lambda mq: mq.positions("orders", group="billing")),
    ("groups", lambda mq: mq.consumer("orders", group="billing")),
    ("durable_groups", lambda mq: mq.delete_group("billing")),
    ("staged_ingest", lambda mq: mq.ingest(STAGED, writer="job", number=0)),
    ("staged_ingest", lambda mq: mq.discard(STAGED)),
    ("seek_time", lambda mq: mq.reset_group("billing", "orders", mqplug.ago(hours=1))),
    ("seek_time", lambda mq: mq.resolve("orders", mqplug.at_time(0))),
    ("advance", lambda mq: mq.distance(mq.watermarks("orders")[0].low, mq.watermarks("orders")[0].high)),
]


@pytest.mark.parametrize(("capability", "call"), [*CALLS.items(), *MORE_CALLS])
def test_what_is_absent_is_named(capability, call):
    """A call without its capability raises Unsupported, which names it, the backend and the operation."""
    with narrowed(**{capability: False}) as (mq, asked):
        mq.create_topic("orders")
        asked.clear()
        with pytest.raises(mqplug.Unsupported) as caught:
            call(mq)
        assert caught.value.capability == capability
        assert (caught.value.backend, bool(caught.value.operation)) == ("narrowed", True)


@pytest.mark.parametrize(
    ("action", "capability"),
    [
        (AlterTopic, "alter_topic"),
        (DeleteTopic, "delete_topic"),
        (ListTopics, "list_topics"),
        (AddPartitions, "add_partitions"),
        (Trim, "trim"),
        (ListGroups, "groups"),
        (DeleteGroup, "durable_groups"),
        (Ingest, "staged_ingest"),
        (DiscardStaged, "staged_ingest"),
    ],
)
def test_an_action_that_a_driver_does_not_know(action, capability):
    """A driver that declares a capability and does not know its action raises with the capability's name."""
    calls = CALLS | {
        "trim": lambda mq: mq.trim("orders", {0: mq.watermarks("orders")[0].low}),
        "durable_groups": lambda mq: mq.delete_group("billing"),
        "staged_ingest": lambda mq: (
            mq.ingest(STAGED, writer="job", number=0) if action is Ingest else mq.discard(STAGED)
        ),
    }
    with narrowed(action, **{capability: True}) as (mq, _):
        mq.create_topic("orders")
        with pytest.raises(mqplug.Unsupported) as caught:
            calls[capability](mq)
        assert caught.value.capability == capability


@pytest.mark.parametrize("action", sorted(get_args(Action), key=str))
def test_the_error_of_an_unknown_action(action):
    """``unsupported`` names the capability that an action needs. All backends create and describe topics."""
    assert {unsupported(object.__new__(action)).capability} & FLAGS or action in ALL_KNOW


def test_unsupported_names_a_capability():
    """The core and the backends raise it with the name of a capability, rather than of a class, action or setting."""
    named = [
        (path.name, node.args[0])
        for path in SOURCES
        if "Unsupported(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"Unsupported", "mqplug.Unsupported"}
    ]
    assert len(named) > 10
    assert {name.value for _, name in named if isinstance(name, ast.Constant)} <= FLAGS
    assert [file for file, name in named if "__name__" in ast.unparse(name)] == []


# the page --------------------------------------------------------------------------------------------------


def rows():
    """Return each row of the three tables: its cells by column head."""
    found = {}
    for table in re.findall(r"(?m)^\| (?:operation|property|number) \|.*\n(?:\|.*\n)+", PAGE):
        heads, _, *lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
        for cells in lines:
            name = cells[0].strip("`")
            assert name not in found, f"{name} has two rows"
            found[name] = dict(zip(heads, cells, strict=True))
    return found


def test_the_page_has_every_capability():
    """Each capability has exactly one row, which for an operation has the call that raises Unsupported."""
    assert set(rows()) == set(attrs.fields_dict(Capabilities))
    assert all(all(cells.values()) for cells in rows().values())


def test_the_page_tells_which_operations_have_a_call():
    """Each operation with a call on the page is tested above; those of the core are absent only without groups."""
    calls = {name: cells.get(HEAD_OF_CALLS) for name, cells in rows().items() if HEAD_OF_CALLS in cells}
    with_call = {name for name, call in calls.items() if not call.startswith(("no call", "none"))}
    assert with_call == CALLS.keys() | {"nack", "dead_letter"}


def test_what_the_core_provides_is_no_contradiction():
    """The core's table marks the capabilities that every backend has natively."""
    table = PAGE.split("## What the core provides\n")[1].split("\n## ")[0]
    marked = {}
    for line in table.splitlines():
        if line.startswith("| `"):
            cell = line.split(" | ")[0]
            marked.update(dict.fromkeys(re.findall(r"`(\w+)`", cell), "native on all four" in cell))
    assert marked.keys() == set(PROVIDED)
    backends = sorted(HEADS.values())
    assert marked == {name: all(rows()[name][head] == "native" for head in backends) for name in marked}


@pytest.mark.parametrize("backend", INSTALLED)
def test_the_page_says_what_is_native(backend):
    """The page shows each backend's descriptor, and the core's additions to it."""
    (point,) = entry_points(group="mqplug.backends", name=backend)
    native = point.load().mqplug_describe().capabilities
    with narrowed(**attrs.asdict(native)) as (mq, _):
        wanted = {name: shown(mq, name) for name in attrs.fields_dict(Capabilities)}
    found = {name: cells[HEADS[backend]] for name, cells in rows().items()}
    assert {name: cell for name, cell in wanted.items() if found[name] != cell} == {}


def shown(mq, name):
    """Return how the page shows a capability of a backend."""
    if name in FLAGS:
        return WORDS[mq.support(name)]
    value = getattr(mq.capabilities, name)
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"
