"""A run: many records of one batch for one partition, accepted, handed over and settled as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from mqplug._model.errors import Error
from mqplug._model.outcome import in_doubt
from mqplug._produce.handle import SingleSend

if TYPE_CHECKING:
    import pyarrow

    from mqplug._base.bell import Bell
    from mqplug._model.id_text import Numbers
    from mqplug._model.log import Log
    from mqplug._model.message import Headers
    from mqplug._produce.columns import SendColumns
    from mqplug._produce.handle import IdParts
    from mqplug._produce.pump import Wait


class SendRun:
    """The records of a run, as columns. The driver settles all of them at once, or each one of ``sendings``."""

    __slots__ = (
        "_alone",
        "_columns",
        "_count",
        "_outcome",
        "_settled",
        "partition",
        "size",
        "topic",
        "wait",
        "waiter",
        "was_seen",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, columns: SendColumns, wait: Wait) -> None:
        self.topic = topic
        self.partition = partition
        self.size = columns.size
        self.wait = wait
        self.was_seen = False
        self.waiter: Bell | None = None
        self._columns = columns
        self._count = len(columns)
        self._outcome: tuple[Log, Sequence[Numbers], Sequence[Numbers] | None] | Error | None = None
        self._alone: list[SingleSend] | None = None
        self._settled = 0  # how many of those are settled, counted from the first

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each record."""
        return self._columns.values

    @property
    def keys(self) -> Sequence[bytes | None] | None:
        """The key of each record; None if no record has one."""
        return self._columns.keys

    @property
    def headers(self) -> Sequence[Headers] | None:
        """The headers of each record; None if no record has any."""
        return self._columns.headers

    @property
    def timestamps(self) -> Sequence[int | None] | None:
        """The timestamp of each record, in milliseconds since 1970; None if no record has one."""
        return self._columns.timestamps

    @property
    def ends(self) -> Sequence[int]:
        """The cumulative bytes of the records: of values, keys and headers."""
        return self._columns.ends

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the named columns that are Arrow arrays."""
        return self._columns.arrow(names)

    @property
    def awaited(self) -> SendRun | SingleSend | None:
        """The part to wait for now: the run as a whole, or one of its records; None once all is settled."""
        if self._outcome is not None:
            return None
        alone = self._alone
        if alone is None:
            return self
        settled = self._settled
        while settled < len(alone) and alone[settled].outcome is not None:
            settled += 1
        self._settled = settled
        return alone[settled] if settled < len(alone) else None

    def places(self) -> list[IdParts]:
        """Return log and coordinates of each record, if all were stored at once."""
        if not isinstance(self._outcome, tuple):
            return []
        log, coordinates, details = self._outcome
        return list(zip(repeat(log), coordinates, details or repeat(()), strict=False))

    def results(self) -> Sequence[IdParts | Error]:
        """Return the outcome of each record. A record that is still on its way counts as timed out."""
        if self.is_stored:
            return self.places()
        return [record.outcome or record.timed_out() for record in self.sendings()]

    @property
    def is_stored(self) -> bool:
        """Whether all records were stored at once."""
        return isinstance(self._outcome, tuple)

    # for drivers; a run is settled once, and later calls change nothing

    def sendings(self) -> Sequence[SingleSend]:
        """Return a handle for each record, to be settled one by one."""
        if self._alone is None:
            self._alone = self._records()
            self._pass_on()
        return self._alone

    def _records(self) -> list[SingleSend]:
        none = repeat(None)
        return [
            SingleSend(self.topic, self.partition, value, key, headers, timestamp, size, self.wait)
            for value, key, headers, timestamp, size in zip(
                self.values, self.keys or none, self.headers or repeat(()), self.timestamps or none,
                self._columns.sizes, strict=False,
            )
        ]  # fmt: skip

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        """Settle all records as stored, with these ids."""
        self._settle((log, coordinates, details))

    def failed(self, error: Error) -> None:
        """Settle all records as certainly not stored."""
        self._settle(error.at(topic=self.topic, operation="send"))

    def unknown(self, error: Error) -> None:
        """Settle all records as in doubt: any of them may or may not be stored."""
        self._settle(in_doubt(error).at(topic=self.topic, operation="send"))

    def _settle(self, outcome: tuple[Log, Sequence[Numbers], Sequence[Numbers] | None] | Error) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._pass_on()
            if self.waiter is not None:
                self.waiter.ring()

    def _pass_on(self) -> None:
        """Settle the single records with the outcome of the run, once both exist."""
        self._settle_each(enumerate(self._alone or ()))

    def _settle_each(self, records: Iterable[tuple[int, SingleSend]]) -> None:
        """Settle single records, given with their rows, with the outcome of the run."""
        outcome = self._outcome
        if isinstance(outcome, Error):
            for _, record in records:
                record.failed(outcome)
        elif outcome is not None:
            log, coordinates, details = outcome
            for row, record in records:
                record.stored(log, coordinates[row], () if details is None else details[row])

    def __repr__(self) -> str:
        return f"<Run of {len(self)} for {self.topic}[{self.partition}]>"
