"""Every public call answers invalid arguments with a plain error, before it has any effect."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from limited_memory import STAGED, narrowed

import mqplug
from mqplug import EARLIEST, Client, MessageId, Position

Call = Callable[[Client], Any]


def no_cluster(mq):
    """Ask a store in memory for its brokers, of which it has none."""
    with pytest.raises(mqplug.Unsupported):
        mq.describe_cluster()


# A correct call of each public method of a client, on a store with the topic "orders" and the group "billing".
RIGHT: dict[str, Call] = {
    "health": lambda mq: mq.health(),
    "unwrap": lambda mq: mq.unwrap(dict),
    "support": lambda mq: mq.support("trim"),
    "create_topic": lambda mq: mq.create_topic("audit"),
    "alter_topic": lambda mq: mq.alter_topic("orders", retention=60),
    "delete_topic": lambda mq: mq.delete_topic("orders"),
    "topics": lambda mq: mq.topics(),
    "describe": lambda mq: mq.describe("orders"),
    "partitions": lambda mq: mq.partitions("orders"),
    "add_partitions": lambda mq: mq.add_partitions("orders", 3),
    "trim": lambda mq: mq.trim("orders", {}),
    "producer": lambda mq: mq.producer("orders").close(),
    "stage": lambda mq: mq.stage("orders").finish(),
    "ingest": lambda mq: mq.ingest([STAGED], writer="job", number=0),
    "discard": lambda mq: mq.discard(STAGED),
    "transaction": lambda mq: mq.transaction("biller", "orders").abort(),
    "consumer": lambda mq: mq.consumer("orders", start=EARLIEST).close(),
    "read": lambda mq: list(mq.read("orders")),
    "describe_cluster": no_cluster,
    "groups": lambda mq: mq.groups(),
    "positions": lambda mq: mq.positions("orders", group="billing"),
    "reset_group": lambda mq: mq.reset_group("billing", "orders", EARLIEST),
    "describe_group": lambda mq: mq.describe_group("billing"),
    "delete_group": lambda mq: mq.delete_group("billing"),
    "watermarks": lambda mq: mq.watermarks("orders"),
    "bounds": lambda mq: mq.bounds("orders"),
    "lag": lambda mq: mq.lag("orders", group="billing"),
    "resolve": lambda mq: mq.resolve("orders", EARLIEST),
    "advance": lambda mq: mq.advance(here(mq), 3),
    "distance": lambda mq: mq.distance(here(mq), here(mq)),
    "close": lambda mq: mq.close(),
}

TOPIC_CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "create_topic": lambda mq, topic: mq.create_topic(topic),
    "alter_topic": lambda mq, topic: mq.alter_topic(topic, retention=60),
    "delete_topic": lambda mq, topic: mq.delete_topic(topic),
    "describe": lambda mq, topic: mq.describe(topic),
    "partitions": lambda mq, topic: mq.partitions(topic),
    "add_partitions": lambda mq, topic: mq.add_partitions(topic, 2),
    "trim": lambda mq, topic: mq.trim(topic, {}),
    "producer": lambda mq, topic: mq.producer(topic),
    "stage": lambda mq, topic: mq.stage(topic),
    "transaction": lambda mq, topic: mq.transaction("biller", topic),
    "consumer": lambda mq, topic: mq.consumer(topic, start=EARLIEST),
    "read": lambda mq, topic: mq.read(topic),
    "groups": lambda mq, topic: mq.groups(topic),
    "positions": lambda mq, topic: mq.positions(topic, group="billing"),
    "reset_group": lambda mq, topic: mq.reset_group("billing", topic, EARLIEST),
    "watermarks": lambda mq, topic: mq.watermarks(topic),
    "watermarks of many": lambda mq, topic: mq.watermarks(["orders", topic]),
    "bounds": lambda mq, topic: mq.bounds(topic),
    "lag": lambda mq, topic: mq.lag(topic, group="billing"),
    "lag of many": lambda mq, topic: mq.lag(["orders", topic], group="billing"),
    "resolve": lambda mq, topic: mq.resolve(topic, EARLIEST),
    "resolve of many": lambda mq, topic: mq.resolve(["orders", topic], EARLIEST),
}

GROUP_CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "consumer": lambda mq, group: mq.consumer("orders", group=group),
    "positions": lambda mq, group: mq.positions("orders", group=group),
    "reset_group": lambda mq, group: mq.reset_group(group, "orders", EARLIEST),
    "describe_group": lambda mq, group: mq.describe_group(group),
    "delete_group": lambda mq, group: mq.delete_group(group),
    "lag": lambda mq, group: mq.lag("orders", group=group),
}

TIMED_CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "health": lambda mq, timeout: mq.health(timeout),
    "create_topic": lambda mq, timeout: mq.create_topic("audit", timeout=timeout),
    "alter_topic": lambda mq, timeout: mq.alter_topic("orders", retention=60, timeout=timeout),
    "delete_topic": lambda mq, timeout: mq.delete_topic("orders", timeout=timeout),
    "topics": lambda mq, timeout: mq.topics(timeout=timeout),
    "describe": lambda mq, timeout: mq.describe("orders", timeout=timeout),
    "partitions": lambda mq, timeout: mq.partitions("orders", timeout=timeout),
    "add_partitions": lambda mq, timeout: mq.add_partitions("orders", 2, timeout=timeout),
    "trim": lambda mq, timeout: mq.trim("orders", {}, timeout=timeout),
    "producer": lambda mq, timeout: mq.producer("orders", timeout=timeout),
    "stage": lambda mq, timeout: mq.stage("orders", timeout=timeout),
    "ingest": lambda mq, timeout: mq.ingest(STAGED, writer="job", number=0, timeout=timeout),
    "discard": lambda mq, timeout: mq.discard(STAGED, timeout=timeout),
    "transaction": lambda mq, timeout: mq.transaction("biller", "orders", timeout=timeout).abort(),
    "consumer": lambda mq, timeout: mq.consumer("orders", start=EARLIEST, timeout=timeout),
    "read": lambda mq, timeout: mq.read("orders", timeout=timeout),
    "describe_cluster": lambda mq, timeout: mq.describe_cluster(timeout=timeout),
    "groups": lambda mq, timeout: mq.groups(timeout=timeout),
    "positions": lambda mq, timeout: mq.positions("orders", group="billing", timeout=timeout),
    "reset_group": lambda mq, timeout: mq.reset_group("billing", "orders", EARLIEST, timeout=timeout),
    "describe_group": lambda mq, timeout: mq.describe_group("billing", timeout=timeout),
    "delete_group": lambda mq, timeout: mq.delete_group("billing", timeout=timeout),
    "watermarks": lambda mq, timeout: mq.watermarks("orders", timeout=timeout),
    "bounds": lambda mq, timeout: mq.bounds("orders", timeout=timeout),
    "lag": lambda mq, timeout: mq.lag("orders", group="billing", timeout=timeout),
    "resolve": lambda mq, timeout: mq.resolve("orders", EARLIEST, timeout=timeout),
    "close": lambda mq, timeout: mq.close(timeout),
}

# Invalid arguments, each with the error that is raised and a word of its message.
WRONG: list[tuple[str, Call, type[Exception], str]] = [
    ("partitions 0", lambda mq: mq.create_topic("a", partitions=0), ValueError, "1 to"),
    ("partitions -1", lambda mq: mq.create_topic("a", partitions=-1), ValueError, "1 to"),
    ("too many partitions", lambda mq: mq.create_topic("a", partitions=10**9), ValueError, "1 to"),
    ("partitions True", lambda mq: mq.create_topic("a", partitions=True), TypeError, "whole number"),
    ("partitions 2.0", lambda mq: mq.create_topic("a", partitions=2.0), TypeError, "whole number"),
    ("retention text", lambda mq: mq.create_topic("a", retention="1d"), TypeError, "seconds or a timedelta"),
    ("retention True", lambda mq: mq.create_topic("a", retention=True), TypeError, "seconds or a timedelta"),
    ("retention -1", lambda mq: mq.create_topic("a", retention=-1), ValueError, "at least 0"),
    ("retention 7", lambda mq: mq.create_topic("a", retention=7), ValueError, r"7 seconds: .*timedelta\(days=7\)"),
    ("retention 0", lambda mq: mq.create_topic("a", retention=0), ValueError, "below 60 needs a timedelta"),
    ("retention nan", lambda mq: mq.create_topic("a", retention=math.nan), ValueError, "at least 0"),
    ("retention_bytes 1.5", lambda mq: mq.create_topic("a", retention_bytes=1.5), TypeError, "whole number"),
    ("retention_bytes -1", lambda mq: mq.create_topic("a", retention_bytes=-1), ValueError, "at least 0"),
    ("option unknown", lambda mq: mq.create_topic("a", options={"x": 1}), mqplug.ConfigError, "no option 'x'"),
    ("altered to text", lambda mq: mq.alter_topic("orders", retention="1d"), TypeError, "seconds or a timedelta"),
    ("altered to 7", lambda mq: mq.alter_topic("orders", retention=7), ValueError, r"7 seconds: .*timedelta\(days=7\)"),
    ("altered to nan", lambda mq: mq.alter_topic("orders", retention=math.nan), ValueError, "at least 0"),
    ("altered to bytes", lambda mq: mq.alter_topic("orders", retention_bytes=-1), ValueError, "at least 0"),
    ("altered to 1.5", lambda mq: mq.alter_topic("orders", retention_bytes=1.5), TypeError, "whole number"),
    ("altered list", lambda mq: mq.alter_topic("orders", options=[1]), TypeError, "a mapping"),
    ("altered option", lambda mq: mq.alter_topic("orders", options={"x": 1}), mqplug.ConfigError, "no option 'x'"),
    ("nothing altered", lambda mq: mq.alter_topic("orders"), TypeError, "nothing to alter"),
    ("no option altered", lambda mq: mq.alter_topic("orders", options={}), TypeError, "nothing to alter"),
    ("options list", lambda mq: mq.create_topic("a", options=[1]), TypeError, "a mapping"),
    ("total text", lambda mq: mq.add_partitions("orders", "3"), TypeError, "whole number"),
    ("total True", lambda mq: mq.add_partitions("orders", True), TypeError, "whole number"),
    ("total 0", lambda mq: mq.add_partitions("orders", 0), ValueError, "1 to"),
    ("trim to a number", lambda mq: mq.trim("orders", {0: 7}), TypeError, "needs a Position"),
    ("trim to an id", lambda mq: mq.trim("orders", {0: an_id(mq)}), TypeError, "needs a Position"),
    ("trim no mapping", lambda mq: mq.trim("orders", low(mq)), TypeError, "a mapping of partition to Position"),
    ("trim of a text", lambda mq: mq.trim("orders", {"0": low(mq)}), ValueError, "needs one of its own positions"),
    ("trim elsewhere", lambda mq: mq.trim("orders", {0: strange()}), mqplug.InvalidMessageId, "expected one of"),
    ("reset to a number", lambda mq: mq.reset_group("billing", "orders", 3), TypeError, "must be EARLIEST"),
    ("reset to a text", lambda mq: mq.reset_group("billing", "orders", "earliest"), TypeError, "must be EARLIEST"),
    ("reset to None", lambda mq: mq.reset_group("billing", "orders", None), TypeError, "must be EARLIEST"),
    ("reset of a number", lambda mq: mq.reset_group("billing", "orders", {0: 3}), TypeError, "needs a Position"),
    ("reset elsewhere", lambda mq: mq.reset_group("billing", "orders", strange()), mqplug.InvalidMessageId, "expect"),
    ("reset to an id", lambda mq: mq.reset_group("billing", "orders", strange_id()), mqplug.InvalidMessageId, "expect"),
    ("a transaction's name", lambda mq: mq.transaction(7), TypeError, "must be a str"),
    ("number without topic", lambda mq: mq.transaction("biller", number=1), TypeError, "number= needs a topic"),
    ("number -1", lambda mq: mq.transaction("biller", "orders", number=-1), ValueError, "must be 0 to"),
    ("consumer of text", lambda mq: mq.transaction("biller", consumer="orders"), TypeError, "not str"),
    ("ingest of nothing", lambda mq: mq.ingest([], writer="job", number=0), ValueError, "no staged messages"),
    ("ingest of a text", lambda mq: mq.ingest("staged", writer="job", number=0), TypeError, "Stage.finish"),
    ("writer 5", lambda mq: mq.ingest(STAGED, writer=5, number=0), TypeError, "a str"),
    ("no writer", lambda mq: mq.ingest(STAGED, writer="", number=0), mqplug.InvalidName, "not a valid name"),
    ("writer of lines", lambda mq: mq.ingest(STAGED, writer="a\nb", number=0), mqplug.InvalidName, "not a valid name"),
    ("number True", lambda mq: mq.ingest(STAGED, writer="job", number=True), TypeError, "whole number"),
    ("number -1", lambda mq: mq.ingest(STAGED, writer="job", number=-1), ValueError, "0 to"),
    ("discard of None", lambda mq: mq.discard([None]), TypeError, "Stage.finish"),
    ("missing", lambda mq: mq.reset_group("billing", "orders", EARLIEST, missing="low"), ValueError, "'error' or"),
    ("watermarks of a number", lambda mq: mq.watermarks(7), TypeError, "a list of str"),
    ("watermarks of a set", lambda mq: mq.watermarks({"orders"}), TypeError, "a list of str"),
    ("lag of bytes", lambda mq: mq.lag(b"orders", group="billing"), TypeError, "a list of str"),
    ("resolve a text", lambda mq: mq.resolve("orders", "earliest"), TypeError, "use mqplug.EARLIEST"),
    ("resolve an id", lambda mq: mq.resolve("orders", an_id(mq)), TypeError, "use before"),
    ("resolve None", lambda mq: mq.resolve("orders", None), TypeError, "must be EARLIEST"),
    ("resolve elsewhere", lambda mq: mq.resolve("orders", strange()), mqplug.InvalidMessageId, "expected one of"),
    ("resolve a partition", lambda mq: mq.resolve("orders", wide(mq)), mqplug.InvalidMessageId, "has no partition 7"),
    ("resolve in 7", lambda mq: mq.resolve("orders", EARLIEST, partitions=[7]), ValueError, "no partition 7"),
    ("resolve in none", lambda mq: mq.resolve("orders", EARLIEST, partitions=[]), ValueError, "at least one"),
    ("resolve in a text", lambda mq: mq.resolve("orders", EARLIEST, partitions="0"), TypeError, "whole numbers"),
    ("resolve in a number", lambda mq: mq.resolve("orders", EARLIEST, partitions=0), TypeError, "whole numbers"),
    ("resolve missing", lambda mq: mq.resolve("orders", EARLIEST, missing="low"), ValueError, "'error' or"),
    ("resolve of a number", lambda mq: mq.resolve(7, EARLIEST), TypeError, "a list of str"),
    ("advance an id", lambda mq: mq.advance(an_id(mq), 1), TypeError, "after"),
    ("advance a text", lambda mq: mq.advance("p1~x", 1), TypeError, "Position.parse"),
    ("advance by -1", lambda mq: mq.advance(here(mq), -1), ValueError, "at least 0"),
    ("advance by 1.0", lambda mq: mq.advance(here(mq), 1.0), TypeError, "whole number"),
    ("advance by True", lambda mq: mq.advance(here(mq), True), TypeError, "whole number"),
    ("advance elsewhere", lambda mq: mq.advance(strange(), 1), mqplug.InvalidMessageId, "another backend or cluster"),
    ("advance nowhere", lambda mq: mq.advance(here(mq, 0, 0), 1), mqplug.InvalidMessageId, "cannot exist"),
    ("distance from None", lambda mq: mq.distance(None, here(mq)), TypeError, "start must be a Position"),
    ("distance to an id", lambda mq: mq.distance(here(mq), an_id(mq)), TypeError, "until must be a Position"),
    ("distance elsewhere", lambda mq: mq.distance(strange(), strange()), mqplug.InvalidMessageId, "another backend"),
    ("distance to elsewhere", lambda mq: mq.distance(here(mq), strange()), TypeError, "different logs"),
    ("distance nowhere", lambda mq: mq.distance(here(mq), here(mq, 1, 0)), mqplug.InvalidMessageId, "cannot exist"),
    ("support of nothing", lambda mq: mq.support("flying"), ValueError, "'flying' is not an operation or property"),
    ("support of a number", lambda mq: mq.support("message_max_bytes"), ValueError, "is not an operation or property"),
    ("unwrap of a text", lambda mq: mq.unwrap("Store"), TypeError, "unwrap"),
]  # fmt: skip


@pytest.fixture
def store():
    """A client with the topic "orders" and the group "billing", and the actions that its backend receives."""
    with narrowed(retention=True, staged_ingest=True) as (mq, asked):
        mq.create_topic("orders")
        mq.reset_group("billing", "orders", EARLIEST)
        asked.clear()
        yield mq, asked


@pytest.fixture
def mq(store):
    """The client of the store."""
    return store[0]


def low(mq):
    """The beginning of the topic's first partition."""
    return mq.watermarks("orders")[0].low


def an_id(mq):
    """An id of the topic's first partition."""
    return MessageId(mq.partitions("orders")[0], (0,))


def here(mq, *coordinates):
    """A position of the client's own store, made without a request."""
    return Position(mqplug.Log("memory", mq._connection.store.name, "orders", 0), coordinates or (0,))


def wide(mq):
    """A position of a partition that the topic does not have."""
    log = mq.partitions("orders")[0]
    return Position(mqplug.Log(log.backend, log.cluster, log.topic, 7, log.incarnation), (0,))


def strange():
    """A position of another cluster."""
    return Position(mqplug.Log("kafka", "elsewhere", "orders", 0), (0,))


def strange_id():
    """An id of another cluster."""
    return MessageId(mqplug.Log("kafka", "elsewhere", "orders", 0), (0,))


def methods(kind):
    """Return the public methods of a class."""
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_every_method_is_tested():
    """Each public method of a client is in these tables: those with a timeout, a topic or a group in theirs."""
    assert methods(Client) == set(RIGHT)
    parameters = {name: inspect.signature(getattr(Client, name)).parameters for name in RIGHT}
    for tested, words in ((TIMED_CALLS, {"timeout"}), (TOPIC_CALLS, {"topic", "topics"}), (GROUP_CALLS, {"group"})):
        assert {name for name in RIGHT if words & set(parameters[name])} == {name.split(" ")[0] for name in tested}


@pytest.mark.parametrize("name", RIGHT)
def test_right_calls_are_right(mq, name):
    """Each correct call of the table succeeds, so that the other tests fail for their wrong argument only."""
    RIGHT[name](mq)


@pytest.mark.parametrize("name", sorted(set(RIGHT) - {"close", "support"}))
def test_a_closed_client_says_so(mq, name):
    """After close every call raises Closed."""
    mq.close()
    with pytest.raises(mqplug.Closed):
        RIGHT[name](mq)


@pytest.mark.parametrize("topic", [7, None, b"orders", ["orders", 7]], ids=repr)
@pytest.mark.parametrize("name", TOPIC_CALLS)
def test_a_topic_is_a_str(store, name, topic):
    """A topic that is not a str raises TypeError, and reaches no driver."""
    mq, asked = store
    if topic is None and name in {"groups", "producer", "transaction"}:
        return  # None means all topics, or any
    with pytest.raises(TypeError):
        TOPIC_CALLS[name](mq, topic)
    assert asked == []


@pytest.mark.parametrize("topic", ["", "or\0ders"], ids=repr)
@pytest.mark.parametrize("name", TOPIC_CALLS)
def test_an_impossible_name(store, name, topic):
    """A topic name that no backend allows raises InvalidName, and reaches no driver."""
    mq, asked = store
    with pytest.raises(mqplug.InvalidName):
        TOPIC_CALLS[name](mq, topic)
    assert asked == []


@pytest.mark.parametrize("name", sorted(set(TOPIC_CALLS) - {"create_topic"}))
def test_a_missing_topic(mq, name):
    """A missing topic raises TopicNotFound, which names it."""
    with pytest.raises(mqplug.TopicNotFound, match="never-made"):
        TOPIC_CALLS[name](mq, "never-made")


@pytest.mark.parametrize(("group", "wrong"), [(7, TypeError), (b"billing", TypeError), (["billing"], TypeError)])
@pytest.mark.parametrize("name", GROUP_CALLS)
def test_a_group_is_a_str(store, name, group, wrong):
    """A group that is not a str raises TypeError, and reaches no driver."""
    mq, asked = store
    with pytest.raises(wrong):
        GROUP_CALLS[name](mq, group)
    assert asked == []


@pytest.mark.parametrize("group", ["", "a/b", "a\0b", "a\nb", "x" * 250], ids=lambda group: group[:5])
@pytest.mark.parametrize("name", GROUP_CALLS)
def test_an_impossible_group(store, name, group):
    """A group name that is never valid raises InvalidName, and reaches no driver."""
    mq, asked = store
    with pytest.raises(mqplug.InvalidName):
        GROUP_CALLS[name](mq, group)
    assert asked == []


@pytest.mark.parametrize("timeout", ["1", True, [1]], ids=repr)
@pytest.mark.parametrize("name", TIMED_CALLS)
def test_a_timeout_is_a_number(store, name, timeout):
    """A timeout that is not a number raises TypeError before the call has any effect."""
    mq, asked = store
    with pytest.raises(TypeError, match="a timeout must be"):
        TIMED_CALLS[name](mq, timeout)
    assert asked == []


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan])
@pytest.mark.parametrize("name", TIMED_CALLS)
def test_a_timeout_is_not_negative(store, name, timeout):
    """A timeout that is negative or NaN raises ValueError before the call has any effect."""
    mq, asked = store
    with pytest.raises(ValueError, match="a timeout must be at least 0"):
        TIMED_CALLS[name](mq, timeout)
    assert asked == []


@pytest.mark.parametrize(("call", "error", "said"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_a_wrong_argument(mq, call, error, said):
    """A wrong argument raises the error of its kind, whose message says what is expected; nothing changes."""
    before = (mq.topics(), mq.partitions("orders"), mq.positions("orders", group="billing"))
    with pytest.raises(error, match=said):
        call(mq)
    assert (mq.topics(), mq.partitions("orders"), mq.positions("orders", group="billing")) == before
