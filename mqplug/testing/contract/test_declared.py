"""LIF: what is declared can be done, and what is not declared is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mqplug import EARLIEST, MessageId, Unsupported, at_time
from mqplug.testing._bench import Bench
from mqplug.testing._registry import Registry

case = Registry("LIF")

Call = Callable[[], object]
MODES = ("ordered", "exclusive", "shared", "key_shared")
NEEDS_A_MEMBER = {"nack", "dead_letter"}


@case(13, timeout=300)
def declared(bench: Bench) -> None:
    """An operation that is declared can be called; one that is not is ``Unsupported``, which names the capability."""
    able = attrs.asdict(bench.client.capabilities)
    topic, ids = bench.filled(2)
    for capability, calls in operations(bench, topic).items():
        for call in calls:
            if able[capability]:
                continue
            with bench.raises(Unsupported) as caught:
                call()
            bench.that(getattr(caught.value, "capability", None) in _names(capability, able), str(caught.value))
    bench.equal([message.id for message in bench.read(topic)], ids, "what was refused did nothing")
    for capability, calls in operations(bench, bench.filled(2)[0]).items():
        for call in calls:
            if able[capability]:
                bench.that(_works(call), capability)


def _names(capability: str, able: dict[str, object]) -> set[str]:
    """The capabilities that may be named; without groups, whatever is about them ends there."""
    about_groups = capability in {"durable_groups", *MODES, *NEEDS_A_MEMBER}
    return {capability} if able["groups"] or not about_groups else {capability, "groups"}


def _works(call: Call) -> bool:
    call()
    return True


def operations(bench: Bench, topic: str) -> dict[str, list[Call]]:
    """Calls for each capability that has some."""
    return {**_of_topics(bench, topic), **_of_groups(bench, topic), **_of_messages(bench, topic)}


def _of_topics(bench: Bench, topic: str) -> dict[str, list[Call]]:
    client, low = bench.client, bench.marks(topic).low
    spare = bench.topic()
    return {
        "delete_topic": [lambda: client.delete_topic(spare)],
        "list_topics": [client.topics],
        "partitions": [lambda: client.create_topic(bench.owned(bench.name()), partitions=2)],
        "add_partitions": [lambda: client.add_partitions(topic, 2)],
        "trim": [lambda: client.trim(topic, {0: low})],
        "retention": [
            lambda: client.create_topic(bench.owned(bench.name()), retention=3600),
            lambda: client.create_topic(bench.owned(bench.name()), retention_bytes=2**30),
        ],
        "auto_create_topics": [lambda: client.producer(bench.owned(bench.name()), create=True)],
        "seek_time": [
            lambda: bench.reader(topic).seek(at_time(0)),
            lambda: bench.reader(topic, at_time(0)),
        ],
        "pause_resume": [lambda: bench.reader(topic).pause(0)],
    }


def _of_groups(bench: Bench, topic: str) -> dict[str, list[Call]]:
    client, group = bench.client, bench.name()

    def in_mode(mode: str) -> Call:
        return lambda: client.consumer(topic, group=bench.name(), mode=mode).close()  # type: ignore[arg-type]

    def reset_and_ask() -> None:
        client.reset_group(group, topic, EARLIEST)
        client.positions(topic, group=group)
        client.lag(topic, group=group)
        client.delete_group(group)

    def give_back() -> None:
        member = bench.member(
            topic, bench.name(), mode=next(mode for mode in MODES if client.support(mode) != "absent")
        )
        member.nack(bench.take(member, 1)[0])

    return {
        "groups": [lambda: client.groups(topic)],
        "durable_groups": [reset_and_ask, lambda: client.reset_group(bench.name(), topic, EARLIEST)],
        **{mode: [in_mode(mode)] for mode in MODES},
        "nack": [give_back if client.capabilities.nack else lambda: _nack_of_a_reader(bench, topic)],
        "dead_letter": [lambda: client.consumer(topic, group=bench.name(), dead_letter=bench.topic()).close()],
    }


def _nack_of_a_reader(bench: Bench, topic: str) -> None:
    reader = bench.reader(topic)
    reader.nack(bench.take(reader, 1)[0])


def _of_messages(bench: Bench, topic: str) -> dict[str, list[Call]]:
    producer = bench.producer(topic)

    def each_way(**fields: object) -> list[Call]:
        def send() -> MessageId:
            return producer.send(**{"value": b"x", **fields})  # type: ignore[arg-type]

        def submit() -> MessageId:
            return producer.submit(**{"value": b"x", **fields}).result()  # type: ignore[arg-type]

        return [send, submit]

    return {
        "null_payload": each_way(value=None),
        "headers": each_way(headers={"a": b"b"}),
        "keys": each_way(key=b"k"),
        "timestamps_producer": each_way(timestamp=1_700_000_000_000),
    }
