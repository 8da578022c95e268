"""FLT: what a store survives on its disk."""

from __future__ import annotations

import time

from mqplug import MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import RECOVERY, SENDS_BATCHES

case = Registry()


@case("FLT-08", needs=("persistent",), hooks=("second_process",), timeout=180, timed=True)
def test_lock_of_the_dead(bench: Bench) -> None:
    """When a process that had the backend open is killed, it can be opened again at once."""
    topic, ids = bench.filled(2)
    with bench.away(), ChildProcess(HOLDS_ON, str(bench.harness.second_process), topic) as child:
        child.wait_for(1, 2 * bench.patience)
        child.kill()
        began = time.monotonic()
        with bench.harness.connect() as client:
            found = [message.id for message in client.read(topic)]
        took = time.monotonic() - began
    bench.equal(found, [*ids, MessageId.parse(child.lines[0])])
    bench.that(took < 5 * bench.scale, f"it took {took:.1f} s")
    bench.that(bench.fill(topic, 1)[0] > found[-1], "and written to")


HOLDS_ON = """
import sys, time, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
producer, reader = client.producer(topic), client.consumer(topic, start=mqplug.EARLIEST)
reader.receive(30)
print(producer.send(b"x", partition=0))
time.sleep(600)
"""


@case("FLT-15", needs=("persistent",), hooks=("tear_tail",), timeout=180)
def test_torn_tail(bench: Bench) -> None:
    """A torn write at the end is dropped, not served: what is read was sent, up to there, and more can follow."""
    topic = bench.topic()
    assert bench.harness.tear_tail is not None
    if bench.harness.second_process is None:
        for number in range(20):
            bench.fill(topic, 5, begin=5 * number)
        with bench.away():
            bench.harness.tear_tail()
    else:  # whoever is killed has closed nothing
        with bench.away(), ChildProcess(SENDS_BATCHES, bench.harness.second_process, topic) as child:
            child.wait_for(20, RECOVERY * bench.scale)
            child.kill()
            bench.harness.tear_tail()
    found = bench.read(topic)
    bench.that(found, "not everything is gone")
    bench.equal([message.value for message in found], [b"%d" % number for number in range(len(found))])
    later = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], [*(message.id for message in found), *later])
    bench.equal(later, sorted(later))


@case("FLT-11", needs=("persistent",), hooks=("copy_store",), timeout=180)
def test_copied(bench: Bench) -> None:
    """A copy of a closed store opens with all its messages and positions, and has a life of its own."""
    topic, ids = bench.filled(20)
    group = bench.name() if bench.client.capabilities.durable_groups else None
    if group is not None:
        bench.client.reset_group(group, topic, ids[12])
    before = bench.read(topic)
    assert bench.harness.copy_store is not None
    with bench.away(), bench.harness.copy_store() as copy:
        bench.equal(list(copy.read(topic)), before)
        if group is not None:
            bench.stands(copy.positions(topic, group=group)[0].position, ids, 12)
        with copy.producer(topic) as producer:
            bench.that(producer.send(b"in the copy", partition=0) > ids[-1], "it can be written to")
    bench.equal(bench.read(topic), before, "and the original is as it was")
