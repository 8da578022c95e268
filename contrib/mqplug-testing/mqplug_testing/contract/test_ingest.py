"""STG: what was staged is taken in as one, and once for each number of its writer, whatever happens meanwhile."""

from __future__ import annotations

import pickle
from threading import Event, Thread

import attrs

from mqplug import ConfigError, Corrupt, InvalidName, Staged, TopicNotFound
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import RECOVERY
from mqplug_testing.contract.test_stages import NEEDS, numbers, partitions, records, staged

case = Registry()


def stage_some(bench: Bench, topic: str, *wanted: int) -> Staged:
    """Stage these numbers for the first partition."""
    return staged(bench.client, topic, records(wanted))


@case("STG-10", needs=NEEDS)
def test_once(bench: Bench) -> None:
    """A batch that is staged and taken in again under its number appears once, and so does one of a smaller number."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    first = client.ingest(stage_some(bench, topic, 1, 2), writer=writer, number=7)
    bench.equal(first.repeated, False)
    spare = stage_some(bench, topic, 1, 2)
    again = client.ingest(spare, writer=writer, number=7)
    bench.equal(again.repeated, True)
    bench.that(again.placed in ({}, first.placed), f"it lies where it lay: {again}")
    bench.equal(client.ingest(stage_some(bench, topic, 0), writer=writer, number=3).repeated, True)
    with bench.raises(Corrupt):
        client.ingest(spare, writer=writer, number=8)  # what was not wanted was discarded
    bench.equal(client.ingest(stage_some(bench, topic, 3), writer=writer, number=8).repeated, False)
    bench.equal(client.ingest(stage_some(bench, topic, 4), writer=bench.name(), number=0).repeated, False)
    bench.equal(numbers(bench, topic), {0: [1, 2, 3, 4]})


@case("STG-11", needs=NEEDS)
def test_nothing_staged(bench: Bench) -> None:
    """A batch without messages is taken in too, and uses up its number."""
    topic, writer = bench.topic(), bench.name()
    done = bench.client.ingest(stage_some(bench, topic), writer=writer, number=0)
    bench.equal((done.messages, dict(done.placed), done.repeated), (0, {}, False))
    bench.equal(bench.client.ingest(stage_some(bench, topic, 1), writer=writer, number=0).repeated, True)
    bench.equal(numbers(bench, topic), {})


@case("STG-12", needs=NEEDS)
def test_all_or_nothing(bench: Bench) -> None:
    """Where one of several stages cannot be taken in, none of them is, and the number is free."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    good, gone = stage_some(bench, topic, 1), stage_some(bench, topic, 2)
    client.discard(gone)
    for several in ([good, gone], [gone, good]):
        with bench.raises(Corrupt):
            client.ingest(several, writer=writer, number=0)
    if client.capabilities.delete_topic:
        doomed = bench.topic()
        lost = stage_some(bench, doomed, 3)
        bench.forget(doomed)
        client.delete_topic(doomed)
        with bench.raises(TopicNotFound):
            client.ingest([good, lost], writer=writer, number=0)
    bench.equal(numbers(bench, topic), {})
    bench.equal(client.ingest(good, writer=writer, number=0).repeated, False)
    bench.equal(numbers(bench, topic), {0: [1]})


@case("STG-13", needs=NEEDS)
def test_at_once(bench: Bench) -> None:
    """However many stages and partitions a batch has, whoever reads meanwhile sees the whole of it or nothing."""
    count, most = partitions(bench), bench.sized(10, 50)
    topic, ended = bench.topic(count), Event()
    batches = [[stage_some_on_all(bench, topic, count) for _ in range(3)] for _ in range(most)]
    writer, client = bench.name(), bench.connect()

    def take_in() -> None:
        for number, batch in enumerate(batches):
            client.ingest(batch, writer=writer, number=number)
        ended.set()

    thread = Thread(target=take_in, daemon=True)
    thread.start()
    seen = [len(bench.read(topic))]
    while not ended.is_set() and thread.is_alive():
        seen.append(len(bench.read(topic)))
    thread.join()
    bench.equal([each for each in seen if each % (6 * count)], [], "a part of a batch was seen")
    bench.equal(len(bench.read(topic)), 6 * count * most)


def stage_some_on_all(bench: Bench, topic: str, count: int) -> Staged:
    """Stage two messages for each partition."""
    return staged(bench.client, topic, *(records((1, 2), partition=partition) for partition in range(count)))


@case("STG-14", needs=NEEDS)
def test_misnamed(bench: Bench) -> None:
    """A writer or number that cannot be, or what was staged elsewhere, is refused, and nothing is taken in."""
    client, topic, writer = bench.client, bench.topic(), bench.name()
    good = stage_some(bench, topic, 1)
    with bench.raises(TypeError):
        client.ingest(good, writer=7, number=0)  # type: ignore[arg-type]
    with bench.raises(InvalidName):
        client.ingest(good, writer="", number=0)
    with bench.raises(TypeError):
        client.ingest(good, writer=writer, number="0")  # type: ignore[arg-type]
    for wrong in (-1, 2**63):
        with bench.raises(ValueError):
            client.ingest(good, writer=writer, number=wrong)
    for stranger in (attrs.evolve(good, backend="another"), attrs.evolve(good, cluster="another")):
        with bench.raises(ConfigError):
            client.ingest([good, stranger], writer=writer, number=0)
    with bench.raises(ValueError):
        client.ingest([good, good], writer=writer, number=0)
    bench.equal(numbers(bench, topic), {})
    client.ingest(good, writer=writer, number=2**63 - 1)
    bench.equal(numbers(bench, topic), {0: [1]})


def lasts(bench: Bench, topic: str, writer: str, waiting: Staged) -> None:
    """Check that what was taken in is there, its number used up, and what was staged can still be taken in."""
    bench.equal(numbers(bench, topic), {0: [0, 1, 2]})
    again = stage_some(bench, topic, 1, 2)
    bench.equal(bench.client.ingest(again, writer=writer, number=5).repeated, True)
    bench.equal(bench.client.ingest(waiting, writer=writer, number=6).repeated, False)
    bench.equal(numbers(bench, topic), {0: [0, 1, 2, 3]})


def take_some(bench: Bench) -> tuple[str, str, Staged]:
    """Send a message, take in two as number 5 of a writer, and stage one more: the topic, the writer, and that one."""
    topic, writer = bench.topic(), bench.name()
    bench.fill(topic, 1)
    bench.client.ingest(stage_some(bench, topic, 1, 2), writer=writer, number=5)
    return topic, writer, stage_some(bench, topic, 3)


@case("STG-15", needs=NEEDS)
def test_after_reopening(bench: Bench) -> None:
    """When all clients were closed the numbers that were taken in are still known, and what waits can be taken in."""
    topic, writer, waiting = take_some(bench)
    with bench.away():
        pass
    lasts(bench, topic, writer, waiting)


@case("STG-16", needs=NEEDS, hooks=("restart",), timeout=180)
def test_after_a_restart(bench: Bench) -> None:
    """The same after a restart."""
    topic, writer, waiting = take_some(bench)
    bench.restart()
    lasts(bench, topic, writer, waiting)


@case("STG-17", needs=(*NEEDS, "persistent"), hooks=("kill", "start"), timeout=180)
def test_after_a_kill(bench: Bench) -> None:
    """The same when the broker was killed as soon as a batch was taken in."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    topic, writer, waiting = take_some(bench)
    bench.harness.kill()
    with bench.away():
        bench.harness.start()
    lasts(bench, topic, writer, waiting)


@case("STG-18", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=180)
def test_staged_elsewhere(bench: Bench) -> None:
    """What another process staged is taken in after that was killed; what it had not finished is not there."""
    topic = bench.topic()
    with bench.away(), ChildProcess(STAGES, str(bench.harness.second_process), topic) as child:
        child.wait_for(1, RECOVERY * bench.scale)
        child.kill()
    found: Staged = pickle.loads(bytes.fromhex(child.lines[0]))
    bench.equal(numbers(bench, topic), {})
    bench.client.ingest(found, writer=bench.name(), number=0)
    bench.equal(numbers(bench, topic), {0: [1, 2]})


STAGES = """
import pickle, sys, time, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
unfinished = client.stage(topic)
unfinished.write([mqplug.Record(b"0", partition=0)] * 1000)
with client.stage(topic) as stage:
    stage.write([mqplug.Record(b"1", partition=0), mqplug.Record(b"2", partition=0)])
    staged = stage.finish()
print(pickle.dumps(staged).hex())
time.sleep(600)
"""


@case("STG-19", needs=(*NEEDS, "persistent"), hooks=("second_process",), timeout=300)
def test_killed_while_it_takes_in(bench: Bench) -> None:
    """A process that takes in batches is killed: each is there as a whole or not at all, and again adds none."""
    topic, writer, known = bench.topic(), bench.name(), 0
    for wanted in (1, bench.sized(5, 30)):
        with bench.away(), ChildProcess(TAKES_IN, str(bench.harness.second_process), topic, writer) as child:
            child.wait_for(wanted, RECOVERY * bench.scale)
            child.kill()
        done = max(known, int(child.lines[-1]) + 1)  # its first batches may be repeats of those of the child before
        bench.that(
            numbers(bench, topic).get(0, []) in (_batches(done), _batches(done + 1)),
            f"{done} batches were called stored; one more may be there, as a whole",
        )
        # What the child asked for last may still be carried out. Now that is a repeat, or this is.
        bench.client.ingest(_again(bench, topic, done), writer=writer, number=done)
        known = done + 1
        bench.equal(numbers(bench, topic), {0: _batches(known)})
        bench.equal(bench.client.ingest(_again(bench, topic, done), writer=writer, number=done).repeated, True)
        bench.equal(numbers(bench, topic), {0: _batches(known)})


def _again(bench: Bench, topic: str, number: int) -> Staged:
    """Stage the batch of this number as the child does."""
    return staged(bench.client, topic, records([number] * 25), records([number] * 25))


def _batches(count: int) -> list[int]:
    """Return what is there when that many batches are."""
    return [number for number in range(count) for _ in range(50)]


TAKES_IN = """
import sys, mqplug
url, topic, writer = sys.argv[1:]
client = mqplug.connect(url)
for number in range(10**9):
    several = []
    for _ in range(2):
        with client.stage(topic) as stage:
            stage.write([mqplug.Record(b"%d" % number, partition=0)] * 25)
            several.append(stage.finish())
    client.ingest(several, writer=writer, number=number)
    print(number)
"""
