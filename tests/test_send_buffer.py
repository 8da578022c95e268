"""``mqplug.spi.SendBuffer``: what a driver collects before it hands records over together."""

from __future__ import annotations

import weakref
from threading import Event, Thread

import pytest

from mqplug.spi import SendBuffer

LONG_S = 60.0  # a linger that no test waits for


class Record:
    """A record that remembers what it was told."""

    error = None

    def unknown(self, error):
        self.error = error

    failed = unknown


class Driver:
    """Takes records from a buffer, and remembers which came together."""

    def __init__(self, linger_s=LONG_S, max_records=3):
        self.taken, self.arrived = [], Event()
        self.buffer = SendBuffer(self.take, linger_s=linger_s, max_records=max_records, thread_name="linger")

    def take(self, records):
        assert self.buffer.lock.locked()
        self.taken.append(records)
        self.arrived.set()


def test_a_full_buffer_is_handed_over_by_its_sender():
    """The record that makes the buffer full takes the others along, in order."""
    driver = Driver()
    records = [Record() for _ in range(4)]
    for record in records:
        driver.buffer.add([record])
    assert driver.taken == [records[:3]]
    assert list(driver.buffer.collected) == records[3:]


def test_what_nobody_waits_for_goes_after_a_moment():
    """Without a flush, a thread hands the records over; again for those that come later."""
    driver = Driver(linger_s=0.001)
    first, second = Record(), Record()
    driver.buffer.add([first])
    assert driver.arrived.wait(10)
    driver.arrived.clear()
    driver.buffer.add([second])
    assert driver.arrived.wait(10)
    assert driver.taken == [[first], [second]]
    driver.buffer.close(10)


def test_a_flush_hands_over_what_there_is():
    """A flush does not wait for the linger; without records it calls nobody."""
    driver = Driver()
    record = Record()
    driver.buffer.add([record])
    driver.buffer.flush()
    driver.buffer.flush()
    assert driver.taken == [[record]]


def test_a_flush_waits_for_a_hand_over_under_way():
    """A flush returns only when what another thread hands over has been handed over."""
    driver = Driver()
    ended = Event()
    with driver.buffer.lock:
        flush = Thread(target=lambda: (driver.buffer.flush(), ended.set()))
        flush.start()
        assert not ended.wait(0.05)
    assert ended.wait(10)
    flush.join()


def test_an_interrupted_hand_over_is_unknown():
    """Each record of an interrupted hand-over is settled as unknown, and the interrupt goes on."""

    def interrupted(records):
        raise KeyboardInterrupt

    buffer = SendBuffer(interrupted, linger_s=LONG_S, max_records=2, thread_name="linger")
    records = [Record(), Record()]
    with pytest.raises(KeyboardInterrupt):
        buffer.add(records)
    assert [type(record.error).__name__ for record in records] == ["OutcomeUnknown"] * 2


def test_a_close_hands_over_and_ends_the_thread():
    """A close leaves neither a record nor a thread."""
    driver = Driver(linger_s=0.001)
    for number in range(2):
        driver.buffer.add([record := Record()])
        if number == 0:
            assert driver.arrived.wait(10)
    driver.buffer.close(10)
    assert driver.taken[-1] == [record]
    assert not driver.buffer._thread.is_alive()


def test_a_closed_buffer_lets_go_of_its_driver():
    """After a close no cycle keeps a driver, and with it its connection, until the garbage collector runs."""
    driver = Driver()
    driver.buffer.close(10)
    buffer, gone = driver.buffer, weakref.ref(driver)
    del driver
    assert gone() is None
    buffer.add([record := Record()])
    buffer.flush()
    assert type(record.error).__name__ == "Closed"
