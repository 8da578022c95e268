"""Records without a waiting sender are collected, and a driver that asks for it gets them as runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from core_waits import set_core_wait
from held_backend import HeldBackend, HeldRuns, held_client
from waiting import wait_until

import mqplug
import mqplug.aio
from mqplug._produce.lingering import LingerThread
from mqplug.spi import Descriptor, Run, Sending, hookimpl

LONG_S = 3600.0  # a linger longer than any test


class Collecting(HeldRuns):
    """A driver that keeps its records, and settles nothing by itself."""

    linger_s = LONG_S

    def __init__(self) -> None:
        super().__init__()
        self.values: list[list[bytes | None]] = []  # the values of each call

    def send(self, sendings: Sequence[Sending]) -> None:
        super().send(sendings)
        self.values.append([each.value for each in sendings])

    def send_run(self, run: Run) -> None:
        super().send_run(run)
        self.values.append(list(run.values))


class Storing(Collecting):
    """A driver that stores at once."""

    stores_at_once = True

    def __init__(self) -> None:
        super().__init__()
        self.log: Any = None

    def send_run(self, run: Run) -> None:
        super().send_run(run)
        run.stored(self.log, [(number,) for number in range(len(run))])

    def store(self, sending: Sending) -> None:
        self.values.append([sending.value])
        sending.stored(self.log, (99,))


@contextmanager
def producer(driver: Any = None, **options: Any) -> Iterator[tuple[mqplug.Producer, Any]]:
    """A producer of the topic ``orders``, and its driver."""
    with held_client(driver or Collecting()) as (mq, held):
        held.log = mq.partitions("orders")[0]
        yield mq.producer("orders", **options), held


def test_the_first_goes_at_once_and_the_others_when_somebody_waits() -> None:
    """An idle driver gets a record at once. Later records follow when a result of one of them is awaited."""
    with producer() as (out, driver):
        handles = [out.submit(b"%d" % number) for number in range(4)]
        assert driver.values == [[b"0"]]
        with pytest.raises(mqplug.SendTimeout):
            handles[2].result(timeout=0)
        assert driver.values == [[b"0"], [b"1", b"2", b"3"]]
        driver.units[1].stored(driver.log, [(5,), (6,), (7,)])
        assert [each.result().coordinates for each in handles[1:]] == [(5,), (6,), (7,)]


def test_a_driver_that_stores_at_once_gets_runs_from_the_first_record_on() -> None:
    """A driver that stores at once collects from the first record on, although it is always idle."""
    with producer(Storing()) as (out, driver):
        handles = [out.submit(b"%d" % number) for number in range(3)]
        assert driver.units == []
        assert handles[0].result().coordinates == (0,)
        assert driver.values == [[b"0", b"1", b"2"]]


def test_a_full_run_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that does not fit hands the run over, by number and by bytes."""
    set_core_wait(monkeypatch, "records of a run", 3)
    set_core_wait(monkeypatch, "bytes of a run", 10)
    with producer(Storing()) as (out, driver):
        for number in range(7):
            out.submit(b"%d" % number)
        assert driver.values == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
        out.submit(b"x" * 10)
        out.submit(b"y" * 20)
        out.flush()
        assert driver.values[2:] == [[b"6"], [b"x" * 10], [b"y" * 20]]


def test_what_nobody_waits_for_goes_after_a_moment() -> None:
    """Without a flush, a thread hands over collected records, repeatedly."""
    driver = Storing()
    driver.linger_s = 0.001
    with producer(driver) as (out, _):
        for number in range(1, 3):
            handle = out.submit(b"x")
            wait_until(lambda handle=handle: handle.done)
            assert len(driver.units) == number


def test_what_is_sent_later_comes_behind() -> None:
    """A send that waits, and a batch, first hand over the collected records."""
    with producer(Storing()) as (out, driver):
        out.submit(b"1")
        out.send(b"2")
        out.submit(b"3")
        out.send_many([b"4", b"5"])
        assert driver.values == [[b"1"], [b"2"], [b"3"], [b"4", b"5"]]


def test_a_run_has_all_fields() -> None:
    """Keys, headers, timestamps and tombstones are in their columns, even if other records of the run have none."""

    class Copying(Storing):
        def send_run(self, run: Run) -> None:
            named = [list(each or ()) for each in (run.values, run.keys, run.headers)]
            self.columns = [tuple(named), list(run.timestamps or ()), list(run.ends)]
            super().send_run(run)

    with producer(Copying()) as (out, driver):
        out.submit(b"plain")
        out.submit(b"keyed", key=b"k")
        out.submit(None, headers={"h": b"1"}, timestamp=5)
        out.submit(b"plain again")
        out.flush()
        assert driver.columns == [
            ([b"plain", b"keyed", None, b"plain again"], [None, b"k", None, None], [(), (), (("h", b"1"),), ()]),
            [None, None, 5, None],
            [5, 11, 13, 24],
        ]
        assert (driver.units[0].size, out.statistics().bytes) == (24, 24)


def test_a_run_may_begin_with_headers() -> None:
    """A run keeps all records in order if the first one has headers and the later ones do not."""
    with producer(Storing()) as (out, driver):
        handles = [out.submit(b"1", headers={"h": b""}), out.submit(b"2"), out.submit(b"3", headers={"h": b""})]
        assert [each.result().coordinates for each in handles] == [(0,), (1,), (2,)]
        assert driver.values == [[b"1", b"2", b"3"]]
        assert list(driver.units[0].headers) == [(("h", b""),), (), (("h", b""),)]


def test_a_run_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has its own run, and a named partition is kept."""
    with held_client(Storing()) as (mq, driver):
        mq.create_topic("wide", partitions=3)
        driver.log = mq.partitions("wide")[0]
        out = mq.producer("wide")
        for number in range(6):
            out.submit(b"%d" % number, partition=number % 3)
        out.flush()
        assert driver.values == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]
        assert [run.partition for run in driver.units] == [0, 1, 2]


def test_a_driver_that_fails_leaves_the_records_in_doubt() -> None:
    """If a hand-over fails, the outcome of its records is unknown, which their handles and flush report."""

    class Failing(Storing):
        def send_run(self, run: Run) -> None:
            raise RuntimeError("no")

    with producer(Failing()) as (out, _):
        handles = [out.submit(b"x") for _ in range(3)]
        with pytest.raises(mqplug.OutcomeUnknown, match="RuntimeError"):
            handles[0].result()
        with pytest.raises(mqplug.OutcomeUnknown, match="2 messages may or may not be stored"):
            out.flush()


def test_an_interrupted_hand_over_is_in_doubt() -> None:
    """Ctrl-C during a hand-over is raised there, and the outcome of each record of the run is unknown."""

    class Interrupted(Storing):
        def send_run(self, run: Run) -> None:
            raise KeyboardInterrupt

    with producer(Interrupted()) as (out, _):
        handles = [out.submit(b"x") for _ in range(3)]
        with pytest.raises(KeyboardInterrupt):
            handles[0].result()
        assert {type(each.error) for each in handles} == {mqplug.OutcomeUnknown}
        assert (out.statistics().waiting, out.statistics().unknown) == (0, 3)
        with pytest.raises(mqplug.OutcomeUnknown, match="3 messages"):
            out.flush()


def test_a_failure_is_raised_once() -> None:
    """A flush raises those failures of a run that were not checked, once."""
    with producer() as (out, driver):
        first, *handles = [out.submit(b"x") for _ in range(4)]
        driver.units[0].stored(driver.log, [(0,)])
        first.result()
        with pytest.raises(mqplug.SendTimeout):
            handles[0].result(timeout=0)
        driver.units[1].failed(mqplug.AccessDenied("no"))
        with pytest.raises(mqplug.AccessDenied):
            handles[0].result()
        with pytest.raises(mqplug.SendFailed, match="2 submitted messages failed"):
            out.flush()
        out.flush()


def test_records_of_a_run_may_be_settled_one_by_one() -> None:
    """A driver may settle each record by itself; a waiter wakes for its own record."""
    with producer() as (out, driver):
        _, second, third = [out.submit(b"%d" % number) for number in range(3)]
        with pytest.raises(mqplug.SendTimeout):
            second.result(timeout=0)
        one, two = driver.units[1].sendings()
        two.stored(driver.log, (7,))
        assert (second.done, third.result().coordinates) == (False, (7,))
        one.failed(mqplug.AccessDenied("no"))
        with pytest.raises(mqplug.AccessDenied):
            second.result()
        driver.units[0].stored(driver.log, [(0,)])


def test_a_close_hands_over_and_ends_the_thread() -> None:
    """A close hands over the last record and ends the thread."""
    driver = Storing()
    driver.linger_s = 0.2
    with producer(driver) as (out, _):
        handle = out.submit(b"x")
        assert [each.name for each in threading.enumerate() if each.name == "mqplug-held-linger"]
        out.close()
        assert handle.result().coordinates == (0,)
        assert not [each.name for each in threading.enumerate() if each.name == "mqplug-held-linger"]
        with pytest.raises(mqplug.Closed):
            out.submit(b"y")


def test_a_close_just_before_a_tick_ends_the_thread() -> None:
    """A close just before the thread's tick still ends it."""

    class ClosedFirst(threading.Event):
        def clear(self) -> None:
            closer = threading.Thread(target=linger.close, args=(0,))
            closer.start()
            closer.join()
            super().clear()

    linger = LingerThread(lambda: False, 0.001, "linger")
    linger._due = ClosedFirst()
    linger.start()
    assert linger._thread is not None
    linger._thread.join(10)
    assert not linger._thread.is_alive()


def test_an_interrupted_start_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C ends the start of the thread, the next record starts it."""

    def interrupt(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    ticked = threading.Event()
    linger = LingerThread(lambda: bool(ticked.set()), 0.001, "linger")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            linger.start()
    linger.start()
    assert ticked.wait(10)
    linger.close(10)


def test_a_closed_producer_lets_go_of_its_driver() -> None:
    """After a close no reference cycle keeps the driver and its connection until the garbage collector runs."""
    gc.collect()
    gc.disable()
    try:
        with producer(Storing()) as (out, driver):
            out.submit(b"x")
            out.close()
            driver.units.clear()  # the test's record of the units refers to the queue
            queue = weakref.ref(out._queue)
            del out, driver
        assert queue() is None
    finally:
        gc.enable()


def test_asyncio_has_runs_too() -> None:
    """Records of one iteration of the loop go together, and each handle gets its outcome."""
    driver = Storing()
    mqplug.register("held", HeldBackend(driver))

    async def main() -> list[mqplug.MessageId]:
        async with mqplug.aio.connect("held") as mq:
            await mq.create_topic("orders")
            driver.log = (await mq.partitions("orders"))[0]
            async with mq.producer("orders") as out:
                await out.send(b"first")
                handles = [await out.submit(b"%d" % number, key=b"k") for number in range(20)]
                return [await handle for handle in handles]

    ids = asyncio.run(main())
    sizes = [len(values) for values in driver.values]
    assert (sum(sizes), len(ids)) == (21, 20)
    assert max(sizes) > 1


def test_what_the_driver_places_keeps_its_order_with_what_names_a_partition() -> None:
    """If the driver partitions keys, a record for a named partition comes after earlier keyed ones."""

    class Placing(HeldBackend):
        @hookimpl
        def mqplug_describe(self) -> Descriptor:
            return attrs.evolve(super().mqplug_describe(), name="placing", partitioners=("murmur2",))

    driver = Storing()
    with mqplug.register("placing", Placing(driver)), mqplug.connect("placing") as mq:
        mq.create_topic("orders", partitions=3)
        driver.log = mq.partitions("orders")[0]
        with mq.producer("orders") as out:
            for number in range(6):
                if number % 3 == 1:
                    out.submit(b"%d" % number, partition=1)
                else:
                    out.submit(b"%d" % number, key=b"k")
    assert driver.values == [[b"0"], [b"1"], [b"2", b"3"], [b"4"], [b"5"]]
