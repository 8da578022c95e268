"""BIG: what a topic is allowed to grow to."""

from __future__ import annotations

from mqplug import MessageId, Record
from mqplug.testing._bench import Bench
from mqplug.testing._registry import Registry

case = Registry("BIG")

SIZE = 1_000_000  # bytes


@case(8, needs=("retention",), hooks=("enforce",), timeout=300)
def test_retention(bench: Bench) -> None:
    """Retention by size, and by time, removes what is old, keeps what is new, and low moves up to that."""
    small, short = bench.owned(bench.name()), bench.owned(bench.name())
    bench.client.create_topic(small, retention_bytes=SIZE)
    bench.client.create_topic(short, retention=1)
    for topic in (small, short):
        ids = list[MessageId]()
        for _ in range(6):
            ids += bench.filler(topic).send_many([Record(bytes(SIZE // 20), partition=0) for _ in range(10)])
            bench.roll(topic)
        _removes(bench, topic, ids)


def _removes(bench: Bench, topic: str, ids: list[MessageId]) -> None:
    assert bench.harness.enforce is not None
    enforce = bench.harness.enforce

    def moved() -> bool:
        enforce(bench.client, topic)
        return not bench.marks(topic).low.precedes(ids[0])

    bench.wait(moved, "low moved", within=120)
    new = bench.fill(topic, 1)[0]
    left = [message.id for message in bench.read(topic, missing="next")]
    bench.equal(left, [*ids, new][len(ids) + 1 - len(left) :], "what is left is what is newest")
    bench.equal(left[-1], new)
    bench.that(len(left) <= len(ids), "something is gone")
