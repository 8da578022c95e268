"""TOP: what is left of a topic that is deleted, or deleted and made again."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import LATEST, Error, TopicNotFound
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("TOP-16", needs=("delete_topic", "durable_groups"), timeout=180)
def test_groups_of_a_new_topic(bench: Bench) -> None:
    """A group that read a topic which was deleted and made again begins at its ``start=`` in the new one."""
    topic, ids = bench.filled(6)
    early, late = bench.name(), bench.name()
    for group in (early, late):
        member = bench.member(topic, group)
        member.ack_through(bench.delivers(member, ids)[3])
        member.close()
    bench.make_again(topic)
    new = bench.fill(topic, 8)
    bench.delivers(bench.member(topic, early), new)
    bench.only_new(bench.member(topic, late, start=LATEST), topic)


@case("TOP-17", needs=("delete_topic",), timeout=180)
def test_deleted_under_all(bench: Bench) -> None:
    """When a topic is deleted, by whomever, live consumers and producers get ``TopicNotFound``, and none makes it."""
    topic, ids = bench.filled(2)
    able, producer, reader = bench.client.capabilities, bench.client.producer(topic), bench.reader(topic)
    bench.delivers(reader, ids)
    uses: dict[str, Callable[[], object]] = {
        "a consumer": lambda: reader.receive(bench.waiting.nothing),
        "a producer": lambda: producer.send(b"x", partition=0),
    }
    if able.groups:
        member = bench.member(topic, bench.name())
        bench.delivers(member, ids)
        uses["a member"] = lambda: member.receive(bench.waiting.nothing)
    bench.forget(topic)
    bench.connect().delete_topic(topic)
    for who, use in uses.items():
        said = list[str]()
        bench.wait(lambda use=use, said=said: _not_found(use, said), f"{who} gets TopicNotFound")  # type: ignore[misc]
        bench.equal([each for each in said if topic not in each], [], f"what {who} got besides")
    if able.list_topics:
        bench.that(topic not in bench.client.topics(), "nobody made it again")


def _not_found(use: Callable[[], object], said: list[str]) -> bool:
    """Whether the topic is not found; another error on the way there is noted."""
    try:
        use()
    except TopicNotFound:
        return True
    except Error as error:
        said.append(f"{error!r} of the topic {error.topic}")
    return False
