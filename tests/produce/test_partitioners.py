"""The partition to which a record goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import pytest
from held_backend import HeldBackend, HeldProducer
from hypothesis import given, strategies as st

import mqplug
from mqplug import Record
from mqplug.spi import Descriptor, Sending, hookimpl

# From Kafka's own tests: UtilsTest.testMurmur2.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}

# Results of String.hashCode(); the last two are characters that take one and two UTF-16 units.
JAVA = {
    "": 0,
    "a": 97,
    "hello": 99162322,
    "Hello": 69609650,
    "foobar": -1268878963,
    "polygenelubricants": -(2**31),
    "Ω": 937,
    "😀": 0xD83D * 31 + 0xDE00,
}


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client with a topic of five partitions."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders", partitions=5)
        yield client


def partitions(ids: Sequence[mqplug.MessageId]) -> list[int]:
    """Return the partitions of these messages."""
    return [each.log.partition for each in ids]


@pytest.mark.parametrize("count", [2, 5, 997, 1000])
@pytest.mark.parametrize(("name", "hashes"), [("murmur2", MURMUR2), ("pulsar-java", JAVA)])
def test_keys_go_where_java_clients_put_them(
    mq: mqplug.Client, name: str, hashes: dict[bytes | str, int], count: int
) -> None:
    """Keys are hashed as by Kafka's and Pulsar's own tests, without the sign bit; single sends and batches agree."""
    mq.create_topic("wide", partitions=count)
    keys = {key.encode() if isinstance(key, str) else key: number for key, number in hashes.items()}
    expected = [(number & 0x7FFFFFFF) % count for number in keys.values()]
    with mq.producer("wide", partitioner=name) as out:  # type: ignore[arg-type]
        assert partitions([out.send(b"x", key=key) for key in keys]) == expected
        assert partitions(out.send_many([Record(b"x", key=key) for key in keys])) == expected


def test_a_key_that_is_no_text_is_hashed_as_its_base64(mq: mqplug.Client) -> None:
    """A key that is not valid UTF-8 goes where Pulsar's Java client puts keyBytes: by its Base64."""
    mq.create_topic("wide", partitions=1000)
    with mq.producer("wide", partitioner="pulsar-java") as out:
        assert out.send(b"x", key=b"\xff\xfe").log == out.send(b"x", key=b"//4=").log


@pytest.mark.parametrize("name", ["murmur2", "crc32", "pulsar-java"])
def test_a_batch_without_keys_sticks_to_a_partition(mq: mqplug.Client, name: str) -> None:
    """All records without a key in one batch go to one partition, those of the next batch to the next."""
    with mq.producer("orders", partitioner=name) as out:  # type: ignore[arg-type]
        batches = [set(partitions(out.send_many([b"x"] * 10))) for _ in range(10)]
    assert all(len(each) == 1 for each in batches)
    visited = [min(each) for each in batches]
    assert sorted(visited[:5]) == [0, 1, 2, 3, 4]
    assert visited[5:] == visited[:5]


def test_single_records_without_a_key_stick_for_a_while(mq: mqplug.Client) -> None:
    """A hundred single records without a key go to one partition, and then a hundred to the next one."""
    with mq.producer("orders") as out:
        sent = partitions([out.send(b"x") for _ in range(200)])
    assert len(set(sent[:100])) == len(set(sent[100:])) == 1
    assert sent[0] != sent[-1]


@pytest.mark.parametrize("name", ["murmur2", "round_robin"])
def test_producers_of_one_record_spread_over_the_partitions(mq: mqplug.Client, name: str) -> None:
    """Each producer begins with a random partition, so that short-lived ones do not all send to the first."""
    begun = set()
    for _ in range(100):
        with mq.producer("orders", partitioner=name) as out:
            begun.add(out.send(b"x").log.partition)
    assert begun == set(range(5))


def test_round_robin_takes_each_partition_in_turn(mq: mqplug.Client) -> None:
    """With round_robin, records without a key go to each partition in turn, over batches and single sends."""
    with mq.producer("orders", partitioner="round_robin") as out:
        sent = partitions(out.send_many([b"x"] * 7)) + partitions([out.send(b"x") for _ in range(3)])
    assert [(each - sent[0]) % 5 for each in sent] == [0, 1, 2, 3, 4] * 2


def test_records_with_and_without_keys_in_one_batch(mq: mqplug.Client) -> None:
    """In a mixed batch keys decide, records without a key stay together, and an explicit partition wins."""
    records = [Record(b"1", key=b"21"), Record(b"2"), Record(b"3", key=b"abc", partition=4), Record(b"4")]
    with mq.producer("orders") as out:
        keyed, first, explicit, second = partitions(out.send_many(records))
    assert keyed == (MURMUR2[b"21"] & 0x7FFFFFFF) % 5
    assert explicit == 4
    assert first == second


def test_a_function_chooses(mq: mqplug.Client) -> None:
    """A function of key and number of partitions chooses, for records without a key too."""
    asked = []

    def choose(key: bytes | None, count: int) -> int:
        asked.append((key, count))
        return 3 if key is None else len(key)

    with mq.producer("orders", partitioner=choose) as out:
        assert partitions([out.send(b"x"), out.send(b"x", key=b"ab")]) == [3, 2]
        assert partitions(out.send_many([b"x", Record(b"x", key=b"a")])) == [3, 1]
    assert asked == [(None, 5), (b"ab", 5), (None, 5), (b"a", 5)]


@pytest.mark.parametrize(("chosen", "kind"), [(5, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_function_that_chooses_wrongly(mq: mqplug.Client, chosen: object, kind: type[Exception]) -> None:
    """An invalid partition is refused before anything is sent."""
    with mq.producer("orders", partitioner=lambda key, count: chosen) as out:  # type: ignore[arg-type,return-value]
        for send in (lambda: out.send(b"x"), lambda: out.submit(b"x", key=b"k"), lambda: out.send_many([b"x"])):
            with pytest.raises(kind, match="partitioner"):
                send()
    assert sum(each.count for each in mq.watermarks("orders").values()) == 0


@pytest.mark.parametrize("wrong", ["murmur3", "", None, 3])
def test_an_unknown_partitioner_is_refused(mq: mqplug.Client, wrong: object) -> None:
    """An unknown partitioner raises ValueError with the valid ones."""
    with pytest.raises(ValueError, match="murmur2, crc32, pulsar-java, round_robin"):
        mq.producer("orders", partitioner=wrong)  # type: ignore[arg-type]


class Natively(HeldBackend):
    """A backend whose driver has the partitioner murmur2. It stores at once, and keeps the chosen partitions."""

    class Driver(HeldProducer):
        def __init__(self) -> None:
            super().__init__()
            self.chosen: list[tuple[bytes | None, int]] = []

        def send(self, sendings: Sequence[Sending]) -> None:
            self.chosen += [(each.key, each.partition) for each in sendings]
            for each in sendings:
                each.stored(mqplug.Log("held", "", each.topic, max(each.partition, 0)), (0,))

    @hookimpl
    def mqplug_describe(self) -> Descriptor:
        return attrs.evolve(super().mqplug_describe(), partitioners=frozenset({"murmur2"}))


@given(keys=st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=20), count=st.integers(1, 7))
def test_a_native_partitioner_is_never_mixed_with_the_cores(keys: list[bytes | None], count: int) -> None:
    """Either the driver or the core partitions all records of a batch, both by the same hash."""
    records = [Record(b"x", key=key) for key in keys]
    driver = Natively.Driver()
    with mqplug.register("held", Natively(driver)), mqplug.connect("held") as mq:
        mq.create_topic("wide", partitions=count)
        with mq.producer("wide", partitioner="murmur2") as out:
            out.send_many(records)
    with mqplug.connect("memory") as mq:
        mq.create_topic("wide", partitions=count)
        with mq.producer("wide", partitioner="murmur2") as out:
            expected = partitions(out.send_many(records))
    if None not in keys:
        assert driver.chosen == [(key, -1) for key in keys]
    else:
        assert all(0 <= partition < count for _, partition in driver.chosen)
        assert keyed(driver.chosen) == keyed(zip(keys, expected, strict=True))


def keyed(chosen: Iterable[tuple[bytes | None, int]]) -> set[tuple[bytes, int]]:
    """Return the partitions of the records that have a key."""
    return {(key, partition) for key, partition in chosen if key is not None}


def test_producers_learn_of_partitions_that_were_added(mq: mqplug.Client) -> None:
    """A producer finds a partition that was added after it was opened, and spreads keys over all of them."""
    with mq.producer("orders") as out:
        with pytest.raises(ValueError, match="no partition 5; expected 0 to 4"):
            out.send(b"x", partition=5)
        mq.add_partitions("orders", 8)
        assert out.send(b"x", partition=7).log.partition == 7
        assert partitions(out.send_many([Record(b"x", partition=6)])) == [6]
        sent = partitions(out.send_many([Record(b"x", key=key) for key in MURMUR2]))
    assert sent == [(number & 0x7FFFFFFF) % 8 for number in MURMUR2.values()]
