"""KEY: handlers that ``run`` calls, by key."""

from __future__ import annotations

import time

from mqplug import Message, MessageId, Retry
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

KEYS = (b"a", b"b", b"c")


class NotYet(Exception):
    """The error of a handler whose message has to come again."""


@case("KEY-13", needs=("keys", "ordered", "durable_groups", "individual_ack"))
def test_handled_by_key(bench: Bench) -> None:
    """With ``order="key"`` a message that failed holds back its key alone, and what was done behind it stays acked."""
    topic, group = bench.topic(), bench.name()
    out = bench.producer(topic)
    ids = [out.send(b"%d" % number, key=KEYS[number % 3], partition=0) for number in range(15)]
    others = {each for number, each in enumerate(ids) if number % 3}
    handled: list[MessageId] = []
    tries: list[MessageId] = []
    end = time.monotonic() + bench.patience

    def handle(message: Message) -> None:
        if message.id == ids[3]:
            tries.append(message.id)
            if len(tries) > 1 and (others <= set(handled) or time.monotonic() > end):
                member.stop()
            raise NotYet
        handled.append(message.id)

    member = bench.member(topic, group, retry=Retry(None, delay=0.05))
    member.run(handle, threads=4, order="key")
    member.close()
    for number in range(3):
        mine = [each for each in handled if each in ids[number::3]]
        bench.equal(mine, ids[:1] if number == 0 else ids[number::3], f"key {number} was handled in its order")
    bench.that(len(tries) > 1, "the message that failed came again")
    bench.delivers(bench.member(topic, group), ids[3::3], "what was not done comes again, and nothing else")


@case(
    "KEY-14",
    needs=("keys", "ordered", "durable_groups", "individual_ack", "persistent"),
    hooks=("second_process",),
    timeout=180,
    profile="full",
)
def test_killed_while_handling(bench: Bench) -> None:
    """A kill in the midst of handlers by key repeats what was not acked, and none of the keys that were done."""
    topic, group = bench.topic(), bench.name()
    out = bench.producer(topic)
    ids = [out.send(b"%d" % number, key=KEYS[number % 3], partition=0) for number in range(30)]
    with bench.away(), ChildProcess(HANDLES, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(1, 2 * bench.patience)
        child.kill()
    bench.delivers(bench.member(topic, group), ids[3::3], "the key that was being handled comes again, and no other")


# Handles all of the keys b and c, and one message of the key a; says so once that is stored, and waits to be killed.
HANDLES = """
import sys, threading, time, mqplug
url, topic, group = sys.argv[1:]
done, lock = [], threading.Lock()
def handle(message):
    while message.key == b"a" and message.value != b"0":
        time.sleep(1)
    with lock:
        done.append(message.id)
with mqplug.connect(url) as client, client.consumer(topic, group=group) as member:
    running = threading.Thread(target=member.run, args=(handle,), kwargs={"threads": 8, "order": "key"}, daemon=True)
    running.start()
    while len(done) < 21:
        time.sleep(0.05)
    time.sleep(0.05)
    member.commit()
    print("stored", flush=True)
    time.sleep(600)
"""
