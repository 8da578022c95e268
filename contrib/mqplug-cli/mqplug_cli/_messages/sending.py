"""Sends records in a thread, at a rate, while the next ones are read, and reports their outcomes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Final, NamedTuple

import click

import mqplug

MAX_WAITING_BYTES: Final = 32 * 1024 * 1024  # read, but not yet being sent
MAX_SENT_TOGETHER: Final = 50_000
MAX_BYTES_TOGETHER: Final = 8 * 1024 * 1024
MAX_KEPT_NUMBERS: Final = 20  # of inputs that were not stored; more are only counted
MAX_KEPT_REASONS: Final = 5
_BURST_S: Final = 0.1  # messages due in this time may go together; earlier ones are not made up for


class Block(NamedTuple):
    """Records with the number of the input of each, and their total size in bytes."""

    records: Sequence[mqplug.Record | bytes]
    numbers: Sequence[int]
    size: int


class Failures:
    """Inputs that failed: how many, and the numbers of the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.numbers: list[int] = []

    def add(self, number: int) -> None:
        """Count one."""
        self.count += 1
        if len(self.numbers) < MAX_KEPT_NUMBERS:
            self.numbers.append(number)


class Outcomes:
    """The outcomes of the inputs."""

    def __init__(self) -> None:
        self.stored = 0
        self.refused = Failures()
        self.in_doubt = Failures()
        self.reasons: list[tuple[int, str]] = []
        self.last: int | None = None
        """The last input that was sent."""

    @property
    def complete(self) -> bool:
        """Whether no input has failed or is in doubt."""
        return not (self.refused.count or self.in_doubt.count)

    def refuse(self, number: int, reason: str) -> None:
        """Count an input that is not stored."""
        self.refused.add(number)
        self._keep(number, reason)

    def doubt(self, number: int, reason: str) -> None:
        """Count an input that may or may not be stored."""
        self.in_doubt.add(number)
        self._keep(number, reason)

    def _keep(self, number: int, reason: str) -> None:
        if len(self.reasons) < MAX_KEPT_REASONS and all(reason != known for _, known in self.reasons):
            self.reasons.append((number, reason))


class SendingThread(Thread):
    """Sends blocks in the order in which they are put, joining those that wait.

    It continues after a record that cannot be stored, and stops after any other failure. ``on_stop`` is called last.
    """

    def __init__(
        self, producer: mqplug.Producer, outcomes: Outcomes, timeout: float, on_stop: Callable[[], None]
    ) -> None:
        super().__init__(name="mqplug-produce", daemon=True)
        self._producer = producer
        self._outcomes = outcomes
        self._timeout = timeout
        self._on_stop = on_stop
        self._changed = Condition()
        self._waiting: deque[Block] = deque()
        self._waiting_bytes = 0
        self._ended = False
        self.stopped = False

    def put(self, block: Block) -> None:
        """Queue a block. Wait while too much is queued."""
        with self._changed:
            while self._waiting_bytes > MAX_WAITING_BYTES and not self.stopped:
                self._changed.wait()
            self._waiting.append(block)
            self._waiting_bytes += block.size
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all queued blocks are sent."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.join()

    def run(self) -> None:
        """Send until ``finish`` or a failure."""
        try:
            while not self.stopped and (block := self._next_block()) is not None:
                self.stopped = not self._send(block)
        finally:
            with self._changed:
                self.stopped = True
                self._changed.notify_all()
            self._on_stop()

    def _next_block(self) -> Block | None:
        with self._changed:
            while not self._waiting:
                if self._ended:
                    return None
                self._changed.wait()
            block = self._waiting.popleft()
            if self._waiting:
                block = self._joined(block)
            self._waiting_bytes -= block.size
            self._changed.notify_all()
            return block

    def _joined(self, block: Block) -> Block:
        records, numbers, size = list(block.records), list(block.numbers), block.size
        while self._waiting and len(records) < MAX_SENT_TOGETHER and size < MAX_BYTES_TOGETHER:
            more = self._waiting.popleft()
            records += more.records
            numbers += more.numbers
            size += more.size
        return Block(records, numbers, size)

    def _send(self, block: Block) -> bool:
        """Send a block, and count the outcomes. Return whether to continue."""
        if not block.records:
            return True
        self._outcomes.last = block.numbers[-1]
        try:
            self._producer.send_many(block.records, timeout=self._timeout)
        except mqplug.SendFailed as error:
            return self._count(block, error.results)
        except Exception as error:  # noqa: BLE001  reported by number, as every failure
            return self._count(block, [error] * len(block.records))
        self._outcomes.stored += len(block.records)
        return True

    def _count(self, block: Block, results: Sequence[object]) -> bool:
        continues = True
        for number, result in zip(block.numbers, results, strict=True):
            if not isinstance(result, Exception):
                self._outcomes.stored += 1
                continue
            continues = continues and _is_of_the_record(result)
            note = self._outcomes.doubt if isinstance(result, mqplug.OutcomeUnknown) else self._outcomes.refuse
            note(number, " ".join(str(result).split()))
        return continues


def _is_of_the_record(error: Exception) -> bool:
    """Return whether a failure concerns only its own record, and not later ones."""
    return isinstance(error, mqplug.MessageTooLarge | mqplug.InvalidRecord | mqplug.InvalidTimestamp)


class InputNames:
    """The names of inputs: line 3, or the name of a file."""

    def __init__(self, noun: str, names: Sequence[str] | None = None) -> None:
        self._noun = noun
        self._names = names

    def one(self, number: int) -> str:
        """Return the name of an input."""
        return f"{self._noun} {self._short(number)}"

    def several(self, failures: Failures) -> str:
        """Return the names of failed inputs, as far as they were kept."""
        named = ", ".join(map(self._short, failures.numbers))
        more = failures.count - len(failures.numbers)
        return f"{self._noun}{'s' if failures.count > 1 else ''} {named}" + (f" and {more:,} more" if more else "")

    def _short(self, number: int) -> str:
        return f"{number:,}" if self._names is None else self._names[number - 1]


def report(outcomes: Outcomes, names: InputNames, read: int) -> None:
    """Print the reasons of failures, and a line with the counts."""
    for number, reason in sorted(outcomes.reasons):
        click.echo(f"error: {names.one(number)}: {reason}", err=True)
    said = [f"stored {outcomes.stored:,} message{'' if outcomes.stored == 1 else 's'}"]
    if outcomes.refused.count:
        said.append(f"{outcomes.refused.count:,} not stored: {names.several(outcomes.refused)}")
    if outcomes.in_doubt.count:
        said.append(f"{outcomes.in_doubt.count:,} may or may not be stored: {names.several(outcomes.in_doubt)}")
    unsent = read - outcomes.stored - outcomes.refused.count - outcomes.in_doubt.count
    if unsent > 0:
        since = "" if outcomes.last is None else f" after {names.one(outcomes.last)}"
        said.append(f"{unsent:,} read{since} and not sent")
    click.echo("; ".join(said), err=True)


class Pacer:
    """Limits messages to ``rate`` per second."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._next = clock()  # when the next message is due

    def take(self, most: int) -> int:
        """Return how many messages, up to ``most``, may go now, and count them as gone."""
        now = self._clock()
        if now < self._next:
            return 0
        self._next = max(self._next, now - _BURST_S)
        count = min(most, 1 + int((now - self._next) * self._rate))
        self._next += count / self._rate
        return count

    @property
    def wait(self) -> float:
        """The seconds until a message may go."""
        return max(0.0, self._next - self._clock())
