"""Topics with schemas, in namespaces that enforce them: mqplug's bytes are accepted and read with a schema version."""

from __future__ import annotations

import json
import time

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String
from pulsar_driver import take

import mqplug
from mqplug import EARLIEST

SEND_S = 30  # after which a send without an answer gives up
VERSION = "mqplug.schema-version"
DEFINITION = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}


class Order(Record):
    """A record that other clients send."""

    id = String()


class Other(Record):
    """A record that is incompatible with ``Order``."""

    id = Integer(required=True)


@pytest.fixture
def strict(pulsar_server, rest, name):
    """A client in a namespace that enforces schemas and does not allow producers to change them."""
    rest.ask("PUT", f"namespaces/public/{name}", {})
    rest.ask("POST", f"namespaces/public/{name}/schemaValidationEnforced", True)
    rest.ask("POST", f"namespaces/public/{name}/isAllowAutoUpdateSchema", False)
    with mqplug.connect("pulsar", service_url=pulsar_server.service_url, admin_url=pulsar_server.admin_url,
                        namespace=name) as client:  # fmt: skip
        yield client


@pytest.fixture
def native(pulsar_server):
    """A client of pulsar-client without mqplug."""
    client = pulsar.Client(
        pulsar_server.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), operation_timeout_seconds=30
    )
    yield client
    client.close()


def schema(kind, definition=DEFINITION):
    """Return a schema as pulsar-admin uploads it."""
    return {"type": kind, "schema": json.dumps(definition)}


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_our_bytes_are_taken(strict, kind):
    """A producer adopts its topic's schema, so a namespace that enforces schemas accepts its bytes."""
    strict.create_topic("orders", partitions=2, options={"schema": schema(kind)})
    with strict.producer("orders") as out:
        sent = [out.send(b"\x02a", partition=0), out.send(b"\x02b", partition=1), out.send(None, partition=0)]
    with strict.consumer("orders", group="g") as member, strict.consumer("orders", start=EARLIEST) as reader:
        for consumer in (member, reader):
            messages = {message.id: message for message in take(consumer, 3)}
            assert [messages[each].value for each in sent] == [b"\x02a", b"\x02b", None]
            assert {message.headers for message in messages.values()} == {((VERSION, b"0"),)}


def test_messages_of_other_clients(mq, native, topic):
    """Messages that pulsar-client wrote with a schema are read as bytes; later ones of mqplug have the schema, too."""
    producer = native.create_producer(topic, schema=JsonSchema(Order))
    producer.send(Order(id="a"))
    with mq.producer(topic) as out:
        out.send(b"ours", headers=[("h", b"1")])
    with mq.consumer(topic, start=EARLIEST) as reader:
        theirs, ours = take(reader, 2)
    assert JsonSchema(Order).decode(theirs.value).id == "a"
    assert theirs.headers == ((VERSION, b"0"),)
    assert sorted(ours.headers) == [("h", b"1"), (VERSION, b"0")]


def test_versions(mq, native, rest, name):
    """A producer adopts the newest schema of its topic, and its messages have that version in a header."""
    rest.ask("PUT", f"namespaces/public/{name}", {})
    rest.ask("PUT", f"namespaces/public/{name}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    rest.ask("PUT", f"persistent/public/{name}/orders/partitions", 1)
    topic = f"persistent://public/{name}/orders"
    for made in (Order, Other):
        native.create_producer(topic, schema=JsonSchema(made))
    with mq.producer(topic) as out:
        out.send(b"{}")
    with mq.consumer(topic, start=EARLIEST) as reader:
        assert take(reader, 1)[0].headers == ((VERSION, b"1"),)


def test_no_schema_no_version(mq, topic):
    """A message of a topic without a schema has no header with a schema version."""
    with mq.producer(topic) as out:
        out.send(b"x")
    with mq.consumer(topic, start=EARLIEST) as reader:
        assert take(reader, 1)[0].headers == ()


def test_copies(mq, topic):
    """A schema version among sent headers is dropped in a topic without a schema."""
    with mq.producer(topic) as out:
        out.send(b"x", headers=[(VERSION, b"7"), ("a", b"1")])
    with mq.consumer(topic, start=EARLIEST) as reader:
        assert take(reader, 1)[0].headers == (("a", b"1"),)


def test_a_schema_that_bytes_cannot_have(strict):
    """A topic whose schema refuses bytes raises ``ConfigError`` soon, with the schema's type."""
    strict.create_topic("numbers", options={"schema": {"type": "INT32"}})
    began = time.monotonic()
    with strict.producer("numbers") as out, pytest.raises(mqplug.ConfigError, match="INT32"):
        out.send(b"\0\0\0\1")
    assert time.monotonic() - began < SEND_S / 2


@pytest.mark.parametrize("given", ["{", "[]", {"schema": "x"}, {"type": "AVRO", "name": "x"}, 7])
def test_a_wrong_schema(mq, name, given):
    """A malformed schema is a ``ConfigError``, and no topic is created."""
    with pytest.raises(mqplug.ConfigError, match="schema"):
        mq.create_topic(name, options={"schema": given})
    with pytest.raises(mqplug.TopicNotFound):
        mq.producer(name)


def test_a_schema_that_the_broker_refuses(mq, name):
    """A schema that the broker refuses is a ``ConfigError``, and no topic is created."""
    with pytest.raises(mqplug.ConfigError, match="refuses the schema"):
        mq.create_topic(name, options={"schema": {"type": "AVRO", "schema": "{"}})
    with pytest.raises(mqplug.TopicNotFound):
        mq.producer(name)
