"""A stream that keeps sending, reading, acking and seeking whatever happens to the broker, and its verdict."""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from threading import Event, Thread

import mqplug

PATIENCE = 2.0  # seconds: the timeout of each call
MOST_BATCHES = 10  # between two commits, each of which may take a second
SLACK = 4.0  # seconds that a call may take longer on a busy machine


class Stream:
    """One producer, one reader, one member of a group, and one reader that seeks back and forth."""

    def __init__(self, mq, topic, group):
        self.mq, self.topic, self.group = mq, topic, group
        self.handles = []
        self.read, self.taken, self.durable, self.sought = [], [], set(), 0
        self._acked = set()
        self._enough = Event()
        self._out = mq.producer(topic)
        self._reader = mq.consumer(topic, start=mqplug.EARLIEST)
        self._seeker = mq.consumer(topic, start=mqplug.EARLIEST)
        # Messages that were acked and not committed when a partition is revoked may be stored, or come again.
        self._member = mq.consumer(topic, group=group, on_revoked=lambda _: self._acked.clear())
        self._sender = Thread(target=self._send, daemon=True)

    def __enter__(self):
        self._sender.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._sender.join(30)
        for each in (self._reader, self._seeker, self._member, self._out):
            with suppress(mqplug.CloseIncomplete, mqplug.OutcomeUnknown):  # a failed test has its own error
                each.close(10)

    def _send(self):
        for number in itertools.count():
            if self._enough.wait(0.002):
                return
            with suppress(mqplug.QueueFull):
                self.handles.append(self._out.submit(b"%d" % number))

    @property
    def stored(self):
        """Return the values of the messages known to be stored, by id."""
        handles = list(self.handles)
        return {each.result(0): b"%d" % n for n, each in enumerate(handles) if each.done and each.error is None}

    def turn(self):
        """Run each step once; each ends in time, and raises only errors that can be retried."""
        in_time(self._read)
        in_time(self._take)
        in_time(self._commit)
        in_time(self._seek)

    def turns(self, more, seconds=90):
        """Continue until this many more messages are stored, read, taken and durable, and the seeks keep pace."""
        wanted = [count + more for count in self._counts()]
        end = time.monotonic() + seconds
        while any(count < want for count, want in zip(self._counts(), wanted, strict=True)):
            assert time.monotonic() < end, f"{self._counts()} did not become {wanted} in time"
            self.turn()

    def _counts(self):
        return [len(self.stored), len(self.read), len(set(self.taken)), len(self.durable), self.sought * 20]

    def _read(self):
        self.read += self._reader.receive_many(500, 0.05)

    def _take(self):
        for _ in range(MOST_BATCHES):
            if not self._take_batch():
                return

    def _take_batch(self):
        batch = self._member.receive_many(500, 0.05)
        again = self.durable & set(batch.ids)
        assert not again, f"{len(again)} messages came again that were acked for good"
        for message in batch:
            self.taken.append(message.id)
            self._member.ack(message)
            self._acked.add(message.id)
        return len(batch)

    def _commit(self):
        acked = set(self._acked)
        self._member.commit(PATIENCE)
        self.durable |= acked

    def _seek(self):
        if len(self.read) < 10:
            return
        wanted = self.read[len(self.read) // 2].id
        self._seeker.seek(wanted, timeout=PATIENCE)
        message = self._seeker.receive(PATIENCE)
        if message is not None:
            assert message.id == wanted
            self.sought += 1

    def settle(self, seconds=60):
        """Stop sending, and wait until every stored message was read and taken."""
        self._enough.set()
        self._sender.join(30)
        end = time.monotonic() + seconds
        while not self._settled():
            assert time.monotonic() < end, f"of {len(self.stored)} messages not all came: {self._counts()}"
            self.turn()

    def _settled(self):
        stored = self.stored.keys()
        done = all(handle.done for handle in self.handles)
        return done and stored <= {each.id for each in self.read} and stored <= set(self.taken)

    def check(self, *, once):
        """Check that nothing was lost, reordered or invented; ``once`` if the broker stores nothing twice."""
        found = {each.id: each.value for each in self.read}
        assert len(found) == len(self.read), "the reader got a message twice"
        assert {each: found.get(each) for each in self.stored} == self.stored
        assert list(found) == sorted(found)
        numbers = [int(value) for value in found.values()]
        first_of_each = list(dict.fromkeys(numbers))
        assert first_of_each == sorted(first_of_each)
        assert set(first_of_each) <= set(range(len(self.handles)))
        assert not once or len(first_of_each) == len(numbers)


def in_time(step):
    """Run a step, which must end in time; an error must be one that can be retried."""
    began = time.monotonic()
    try:
        step()
    except mqplug.NotAssigned:
        pass  # a commit for a partition that was lost in between: its messages come again
    except mqplug.Error as error:
        if not error.retryable:
            raise
    assert time.monotonic() - began < 2 * PATIENCE + SLACK, f"{step.__name__} took {time.monotonic() - began:.1f} s"
