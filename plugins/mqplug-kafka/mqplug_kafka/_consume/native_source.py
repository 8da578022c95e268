"""Reads through the compiled part, without a Python object for each message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mqplug.spi import Headers, Numbers
from mqplug_kafka._consume.message_source import Fetched, Name, Offsets, PartitionError

if TYPE_CHECKING:
    import pyarrow

    from mqplug_kafka._consume.first_messages_check import FirstMessagesCheck
    from mqplug_kafka_native import Reader, Run

FIRST_MESSAGES = 100  # at most, where they are compared with those of the plain client before they are delivered


class NativeSource:
    """The compiled part's reader as a source of messages. Until a process has checked it once, it has a check."""

    def __init__(self, native: Reader, check: FirstMessagesCheck | None) -> None:
        self._native = native
        self._check = check
        self.assignment = NativeAssignment(native)

    @property
    def is_refuted(self) -> bool:
        """Whether another source should take its place, because the check failed or found no answer."""
        return self._check is not None and self._check.has_failed

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for one message and take the others that are there."""
        runs, errors = self._native.poll(most if self._check is None else min(most, FIRST_MESSAGES), timeout)
        return Fetched(
            [((topic, partition), NativeRows(run)) for topic, partition, run in runs],
            [PartitionError((topic, partition), offset, error) for topic, partition, offset, error in errors],
        )

    def vouches_for(self, fetched: Fetched, timeout: float) -> bool:
        """Return whether these are what the plain client reads. Always true once that was shown."""
        if self._check is None or not fetched.runs:
            return True
        if not self._check.confirms(fetched, timeout):
            return False
        self._check = None
        return True

    def pause(self, names: Iterable[Name]) -> None:
        """Stop fetching these partitions."""
        self._native.pause([(*name, 0) for name in names])

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again."""
        self._native.resume([(*name, 0) for name in names])

    def close(self) -> None:
        """End the reader."""
        if self._check is not None:
            self._check.end()
        self._native.close()


class NativeAssignment:
    """Partitions are added and removed one by one."""

    restarts_all = False

    def __init__(self, native: Reader) -> None:
        self._native = native

    def accept(self) -> None:
        """Do nothing: there is no group."""

    def add(self, added: Offsets, held: Offsets) -> None:
        """Fetch more partitions."""
        self._native.assign([(*name, offset) for name, offset in added.items()])

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        """Stop fetching partitions."""
        self._native.unassign([(*name, 0) for name in removed])


class NativeRows:
    """A run of the compiled part."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    def next_offset(self) -> int:
        """Return the offset behind the last of them."""
        return self._run.next_offset()

    def columns(self) -> NativeColumns:
        """Return their columns."""
        return NativeColumns(self._run)


class NativeColumns:
    """The columns of a run. Lists are made when they are asked for; Arrow arrays are views of its memory."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def coordinates(self) -> Sequence[Numbers]:
        """Return the offsets."""
        return self._run.coordinates()

    def details(self) -> None:
        """Return None: an offset needs no detail."""

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys."""
        return self._run.keys()

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""
        return self._run.values()

    def headers(self) -> Sequence[Headers]:
        """Return the headers, in order, with their duplicates."""
        return self._run.headers()

    def timestamps(self) -> Sequence[int]:
        """Return creation or arrival times, as the topic is configured, whatever number the producer gave."""
        return self._run.times()

    def log_times(self) -> Sequence[int]:
        """Return the timestamps: Kafka keeps one time of each message, and searches by it."""
        return self._run.times()

    def attempts(self) -> None:
        """Return None: Kafka does not count deliveries."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the columns as arrays over the run's memory."""
        from mqplug_kafka._consume.arrow_views import views

        return views(self._run, names)
