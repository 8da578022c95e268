"""The crash harness and its model: they must find every error, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksmq_stores import OpenStore, nightly
from torture import TORTURE_GROUP, TORTURE_PARTITIONS, StoreModel, compare, number_in, run_torture, value_for

import mqplug


@pytest.fixture
def mq(request: pytest.FixtureRequest) -> Iterator[mqplug.Client]:
    """A client of a memory backend, in place of the store."""
    with mqplug.connect(f"memory://{request.node.name}") as client:
        yield client


class Victim:
    """Uses a backend, and reports to the model."""

    def __init__(self, mq: mqplug.Client) -> None:
        self.mq = mq
        self.model = StoreModel()
        self.numbers = iter(range(1000))
        mq.create_topic("t", partitions=TORTURE_PARTITIONS)
        self.tell("create", {})

    def tell(self, what: str, done: dict[str, Any] | None, **more: Any) -> None:
        """Report that an operation was begun and, unless *done* is None, done."""
        self.model.process({"thread": 0, "begin": what, "topic": "t", **more})
        if done is not None:
            self.model.process({"thread": 0, "done": done})

    def store(self, number: int) -> int:
        """Store a message without a report."""
        with self.mq.producer("t") as out:
            return out.send(value_for(number), partition=0).coordinates[0]

    def send(self) -> int:
        """Store a message."""
        number = next(self.numbers)
        offset = self.store(number)
        self.tell("send", {"offsets": [offset]}, partition=0, numbers=[number, number + 1])
        return offset

    def verify(self) -> list[str]:
        """Return the errors that the model finds."""
        self.model.probes += 1_000_000
        self.model.verify(self.mq)
        return self.model.wrong


@pytest.fixture
def victim(mq: mqplug.Client) -> Victim:
    """A victim that has stored three messages."""
    victim = Victim(mq)
    for _ in range(3):
        victim.send()
    return victim


def test_nothing_wrong(victim: Victim) -> None:
    """If everything is as reported, no error is found, also the second time."""
    assert [victim.verify(), victim.verify()] == [[], []]


def test_lost(victim: Victim) -> None:
    """A missing acknowledged message is found."""
    victim.tell("send", {"offsets": [3]}, partition=0, numbers=[900, 901])
    assert "t/0: the message at 3 is lost" in victim.verify()


def test_invented(victim: Victim) -> None:
    """A message without a send is found."""
    victim.store(900)
    assert victim.verify()[0] == "t/0: the message 900 at 3 was never sent here"


def test_twice(victim: Victim) -> None:
    """A message that was stored twice is found."""
    victim.store(2)
    assert "t/0: messages came twice, or out of order" in victim.verify()


def test_changed(victim: Victim) -> None:
    """A message with changed content is found."""
    with victim.mq.producer("t") as out:
        out.send(value_for(900) + b"!", partition=0)
    assert "was never sent" in victim.verify()[0]


def test_on_its_way(victim: Victim) -> None:
    """An unacknowledged send may be stored or not."""
    victim.store(900)
    victim.tell("send", None, partition=0, numbers=[900, 950])
    assert victim.verify() == []


def test_repeated(victim: Victim) -> None:
    """A message that comes again after its ack is found."""
    victim.tell("ack", {}, places=[[0, 1]])
    assert victim.verify() == ["t: (0, 1) came again after its ack"]


def test_not_counted(victim: Victim) -> None:
    """A message of a shared group that comes again with an earlier attempt is found; so is an acked one."""
    victim.tell("take", {"taken": [[0, 0, 1], [0, 1, 1]]})
    victim.tell("settle", {}, places=[[0, 0]])
    victim.tell("take", {"taken": [[0, 0, 2], [0, 1, 1]]})
    assert victim.model.wrong == [
        "t: (0, 0) came again after its ack, to a member in mode shared",
        "t: (0, 1) came as attempt 1, after attempt 1",
    ]


def test_a_seek_forgets_attempts(victim: Victim) -> None:
    """After a seek, messages of a shared group may come as the first attempt again, and after their acks."""
    victim.tell("take", {"taken": [[0, 0, 3]]})
    victim.tell("settle", {}, places=[[0, 0]])
    victim.tell("forget_shared", {}, partition=0)
    victim.tell("take", {"taken": [[0, 0, 1]]})
    assert victim.verify() == []


def test_skipped(victim: Victim) -> None:
    """An unacked message that does not come is found."""
    with victim.mq.consumer("t", group=TORTURE_GROUP) as group:
        message = group.receive(timeout=10)
        assert message is not None
        group.ack(message)
        group.commit()
    assert victim.verify() == ["t: (0, 0) did not come again, and was not acked"]


def test_trimmed_too_far(victim: Victim) -> None:
    """Messages that were trimmed without a request are found."""
    victim.mq.trim("t", {0: victim.mq.watermarks("t")[0].high})
    assert victim.verify()[0] == "t/0: low is 3, not 0"


def test_reused(victim: Victim) -> None:
    """An offset that is assigned twice is found."""
    victim.tell("send", {"offsets": [2]}, partition=0, numbers=[900, 901])
    assert victim.model.wrong == ["t: the offset 2 was given out twice"]


def test_deleted(victim: Victim) -> None:
    """A topic that disappeared without a deletion is found."""
    victim.mq.delete_topic("t")
    assert victim.verify() == ["the topic t is gone"]


def test_contents() -> None:
    """The content of a message identifies it."""
    assert [number_in(value_for(number)) for number in range(100)] == list(range(100))
    assert [number_in(value) for value in (None, b"", b"1", b"1:x", b"x:", value_for(5)[:-1])] == [None] * 6


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("cycles", "seconds"), [(4, 1.0), *nightly((30, 0.2))])
def test_torture(path: Path, cycles: int, seconds: float) -> None:
    """Kills lose nothing that was acknowledged."""
    verdict = run_torture(path, cycles=cycles, seconds=seconds, sync="always", seed=1)
    assert verdict.wrong == ()
    assert verdict.cycles == cycles
    assert verdict.sent > 0
    assert verdict.acks > 0


@pytest.mark.timeout(300)
def test_damage_is_told(path: Path, open_store: OpenStore) -> None:
    """A store that does not open after a kill is a verdict, not a crash of the harness."""
    assert run_torture(path, cycles=1, seconds=0.5, sync="os", seed=2).wrong == ()
    store = open_store(sync="os")
    topic = store.topics.get(store.topics.names()[0])
    store.engine.change(lambda changes: changes.drop_pages(topic.logs[0], 0, 1 << 40), 10)
    store.close(10)
    model = StoreModel()
    compare(path, "os", model)
    assert model.wrong
    assert "Corrupt" in model.wrong[0]
