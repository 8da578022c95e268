"""ORD: what goes wrong now and then only is looked for so often that it is found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mqplug import MessageId, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

ROUNDS = 135  # of one in twenty, one is found so with 99.9 percent
SENDERS = 4


@case("ORD-15", timeout=300)
def test_senders_at_once(bench: Bench) -> None:
    """What four producers send at the same moment is all stored, each under its own id, in 135 rounds."""
    topic = bench.topic()
    producers = [bench.connect().producer(topic) for _ in range(SENDERS)]
    together = Barrier(SENDERS)

    def send(number: int) -> list[tuple[MessageId, bytes]]:
        sent = []
        for running in range(ROUNDS):
            values = [b"%d-%d-%d" % (number, running, each) for each in range(1 + running % 2)]
            together.wait(bench.patience)
            ids = producers[number].send_many([Record(value, partition=0) for value in values])
            sent += list(zip(ids, values, strict=True))
        return sent

    with ThreadPoolExecutor(SENDERS) as pool:
        sent = [each for part in pool.map(send, range(SENDERS)) for each in part]
    found = {message.id: message.value for message in bench.read(topic)}
    bench.equal([each for each in sent if found.get(each[0]) != each[1]], [], "sent and not found")
    bench.equal(len(found), len(sent))
