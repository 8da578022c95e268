"""The driver rules: debug mode detects each breach, and the core breaks none."""

from __future__ import annotations

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from memory_drivers import Heard, Seam, Sent, through

import mqplug
import mqplug_testing.debug
from mqplug import PluginError, Position, Record, memory
from mqplug.spi import GroupPosition, Settlement, TransactionOptions
from mqplug_testing.debug import Debug, Rules

PAGE = Path(__file__).parents[2] / "docs" / "driver-rules.md"


@pytest.fixture
def seam() -> Seam:
    """A topic of one partition with a message, whose drivers are watched."""
    seam = Seam(debug=True)
    seam.send(b"x")
    return seam


def breaks(rule: str):
    """Check that the block breaks this rule."""
    return pytest.raises(PluginError, match=f"driver rule '{rule}'")


def here(seam: Seam, coordinates=(0,)) -> dict:
    """Return a position."""
    return {seam.logs[0]: Position(seam.logs[0], coordinates)}


def stands(seam: Seam) -> dict:
    """Return a group's position."""
    return {log: GroupPosition(at) for log, at in here(seam).items()}


class Meanwhile:
    """Runs one call of a driver in another thread, and keeps it running until the block ends."""

    def __init__(self, driver, name, *arguments):
        self.inner, self.driver, self.name, self.arguments = driver.inner, driver, name, arguments
        self.entered, self.leave = threading.Event(), threading.Event()

    def _stay(self, *_):
        self.entered.set()
        self.leave.wait(10)
        return []

    def __enter__(self):
        setattr(self.inner, self.name, self._stay)
        self.thread = threading.Thread(target=getattr(self.driver, self.name), args=self.arguments)
        self.thread.start()
        assert self.entered.wait(10)

    def __exit__(self, *_):
        self.leave.set()
        self.thread.join(10)
        delattr(self.inner, self.name)


class Failing(Meanwhile):
    """Makes one call fail."""

    def _stay(self, *_):
        raise mqplug.Timeout("not now")

    def __enter__(self):
        setattr(self.inner, self.name, self._stay)

    def __exit__(self, *_):
        delattr(self.inner, self.name)


CALLS = {
    "poll": (1, 0),
    "tend": (0,),
    "pause": ([],),
    "resume": ([],),
    "seek": ({}, 1),
    "commit": ({}, 1),
    "close": (1,),
}


POLLING = {"poll", "tend", "pause", "resume"}
MAY_OVERLAP = {"commit": POLLING, **{name: {"commit"} for name in POLLING}}
"""The calls that may run in another thread during each call."""


@pytest.mark.parametrize("running", CALLS)
@pytest.mark.parametrize("called", CALLS)
def test_what_may_overlap(seam, running, called):
    """During each call only the calls that the table allows run in another thread."""
    member = seam.member()
    with Meanwhile(member, running, *CALLS[running]):
        if called in MAY_OVERLAP.get(running, ()):
            getattr(member, called)(*CALLS[called])
        else:
            with breaks("after-close" if running == "close" else "overlap"):
                getattr(member, called)(*CALLS[called])
        member.wake()


def test_two_threads_never_send_at_once(seam):
    """A producer's sends never overlap; reports may be served during a send."""
    with Meanwhile(seam.producer, "send", []):
        with breaks("overlap"):
            seam.send(b"x")
        seam.producer.pump(0)
        seam.producer.flush(0)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "close"])
def test_nothing_is_called_after_close(seam, name):
    """Only wake may be called after close."""
    member = seam.member()
    member.close(1)
    with breaks("after-close"):
        getattr(member, name)(*CALLS[name])
    member.wake()


def test_the_connection_is_closed_last(seam):
    """The connection's producers and consumers are closed before it."""
    with breaks("close-last"):
        seam.connection.close(1)
    seam.producer.close(1)
    seam.connection.close(1)


@pytest.mark.parametrize(("most", "timeout"), [(0, 0), (1, 0.2), (1, -1)])
def test_polls_are_short_and_ask_for_something(seam, most, timeout):
    """A poll requests at least one message, and lasts at most a tenth of a second."""
    with breaks("slices"):
        seam.reader().poll(most, timeout)


def test_the_listener_is_called_inside_poll_and_tend(seam):
    """A driver that reports an assignment at another time is detected, too."""
    member = seam.member()
    with breaks("listener"):
        member.inner._listener.assigned({})
    with breaks("listener"):
        member.inner._listener.revoked([])


def test_only_what_is_held_is_named(seam):
    """A seek, commit, pause or resume of a log that the consumer does not hold breaks a rule."""
    member = seam.member()
    for name, arguments in (("seek", (here(seam), 1)), ("commit", (stands(seam), 1)), ("pause", (seam.logs,))):
        with breaks("held"):
            getattr(member, name)(*arguments)
    member.poll(1, 0)
    member.commit(stands(seam), 1)
    member.seek(here(seam), 1)


def test_commit_is_for_members_that_hold_logs(seam):
    """A commit by a reader, or by a member that shares logs, breaks a rule."""
    with breaks("commit-with-group"):
        seam.reader().commit(stands(seam), 1)
    with breaks("commit-with-group"):
        seam.member("shared").commit({}, 1)


def test_settle_is_for_members_that_share(seam):
    """A settle by a member that does not share logs breaks a rule."""
    with breaks("settle-shared"):
        seam.member().settle({}, 1)


def test_a_message_is_settled_once(seam):
    """A message is acked or returned once, and then not again until its next delivery."""
    member, log = seam.member("shared"), seam.logs[0]
    member.poll(1, 0)
    member.settle({log: Settlement([], [((0,), 0.0)])}, 1)
    with breaks("settle-once"):
        member.settle({log: Settlement([(0,)])}, 1)
    member.poll(1, 0)
    member.settle({log: Settlement([(0,)])}, 1)


def test_a_settlement_that_failed_may_come_again(seam):
    """A settlement that failed may be repeated."""
    member, log = seam.member("shared"), seam.logs[0]
    member.poll(1, 0)
    with Failing(member, "settle"), pytest.raises(mqplug.Timeout):
        member.settle({log: Settlement([(0,)])}, 1)
    member.settle({log: Settlement([(0,)])}, 1)


def test_what_a_callback_does_inside_a_poll_is_allowed(seam):
    """A seek inside the listener's call, in its thread, is no overlap."""

    class Seeking(Heard):
        def assigned(self, positions):
            super().assigned(positions)
            member.seek(here(seam), 1)

    member = seam.member(listener=Seeking())
    assert len(member.poll(1, 0)) == 1


def test_records_are_sent_within_a_transaction(seam):
    """The core begins a transaction before it sends in it, and begins no second one before it ends the first."""
    opened = memory.mqplug_open_transactions(seam.connection, TransactionOptions(name="biller"))
    driver = through(Debug().mqplug_open_transactions(seam.connection), opened)
    with breaks("in-transaction"):
        driver.send([Sent("orders", 0, b"x")])
    driver.begin(None, 1)
    with breaks("in-transaction"):
        driver.begin(None, 1)


def test_broken_rules_are_kept(seam):
    """A broken rule is recorded even if its error went to a thread that nobody observes."""
    with breaks("slices"):
        seam.reader().poll(0, 0)
    assert [text.split(":")[0] for text in seam.connection.unwrap(Rules).broken] == ["driver rule 'slices'"]


def test_every_rule_is_documented_and_proven():
    """The page of the driver rules names the rules that debug mode enforces, and each of them is broken in a test."""
    named = set(re.findall(r"\| `([a-z-]+)` \|$", PAGE.read_text(), re.MULTILINE))
    sources = "".join(file.read_text() for file in Path(mqplug_testing.debug.__file__).parent.glob("*.py"))
    assert set(re.findall(r"breach\(\s*\"([a-z-]+)\"", sources)) <= named
    tests = "".join(file.read_text() for file in PAGE.parents[1].glob("tests/*/test_*.py"))
    assert [rule for rule in named if f'"{rule}"' not in tests] == []


def test_sendings_are_settled_at_once():
    """Each record that memory accepts is stored or failed when send returns."""
    seam = Seam()
    sent = [Sent("orders", 0, b"x"), Sent("nowhere", 0, b"x"), Sent("orders", 0, b"y")]
    seam.producer.send(sent)
    assert [sent[0].outcome, type(sent[1].outcome), sent[2].outcome] == [(0,), mqplug.TopicNotFound, (1,)]


# the core --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ordered", "shared", "key_shared", "exclusive"])
@pytest.mark.parametrize("like", ["full", "pulsar"])
def test_the_core_keeps_the_rules(like, mode):
    """With all operations at once, from many threads, the core breaks no rule, and loses nothing."""
    with mqplug.connect("memory", like=like, debug=True) as mq:
        rules = mq.unwrap(Rules)
        mq.create_topic("orders", partitions=3)
        # A member of Pulsar does not learn that it lost a log, nor that another member sought.
        seeks = 0 if like == "pulsar" and mode == "ordered" else 6
        seen = _soak(mq, mode, seeks)
    assert rules.broken == []
    assert seen == {b"%d" % number for number in range(600)}


def _soak(mq, mode, seeks):
    seen, stop, seeks = set(), threading.Event(), iter(range(seeks))
    with mq.producer("orders") as out, ThreadPoolExecutor(8) as pool:
        sending = [pool.submit(_send, out, begin) for begin in range(0, 600, 200)]
        members = [pool.submit(_consume, mq, mode, seen, stop, seeks) for _ in range(1 if mode == "exclusive" else 3)]
        end = time.monotonic() + 40
        while len(seen) < 600 and time.monotonic() < end:
            time.sleep(0.02)
        stop.set()
        for each in (*sending, *members):
            each.result(30)
    return seen


def _send(out, begin):
    for number in range(begin, begin + 200, 10):
        values = [b"%d" % each for each in range(number, number + 10)]
        if number % 20:
            out.send_many([Record(value, key=value) for value in values])
        else:
            for value in values:
                out.submit(value, key=value)
    out.flush()


def _consume(mq, mode, seen, stop, seeks):
    luck = random.Random(mode)
    while not stop.is_set():
        with mq.consumer("orders", group="billing", mode=mode, retry=mqplug.Retry(None, delay=0)) as orders:
            helper = threading.Thread(target=_meddle, args=(orders, stop, seeks))
            helper.start()
            for _ in range(luck.randrange(20, 200)):
                message = orders.receive(timeout=0.05)
                if stop.is_set():
                    break
                if message is None:
                    continue
                if luck.random() < 0.05:
                    orders.nack(message)
                else:
                    seen.add(message.value)
                    orders.ack(message)
            helper.join()


def _meddle(orders, stop, seeks):
    """Commit, pause, resume and, a few times, seek from another thread."""
    for _ in range(5):
        if stop.wait(0.02):
            return
        for call in (orders.commit, orders.pause, orders.resume):
            call()
        if orders.assignment() and next(seeks, None) is not None:
            with suppress(mqplug.NotAssigned):
                orders.seek(mqplug.EARLIEST)
