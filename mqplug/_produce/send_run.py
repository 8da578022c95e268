"""A run: many records of one batch for one partition, accepted, handed over and settled as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from mqplug._model.errors import Error
from mqplug._model.outcome import in_doubt
from mqplug._produce.handle import SendHandle

if TYPE_CHECKING:
    import pyarrow

    from mqplug._base.bell import Bell
    from mqplug._model.headers import Headers
    from mqplug._model.log import Log
    from mqplug._model.text import Numbers
    from mqplug._produce.columns import SendColumns
    from mqplug._produce.handle import IdParts, Wait


class SendRun:
    """The records of a run, as columns. The driver settles all of them at once, or each of ``sendings``."""

    __slots__ = (
        "_alone", "_columns", "_count", "_outcome", "_settled", "looked_at", "partition", "size", "topic", "wait",
        "waiter",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, columns: SendColumns, wait: Wait) -> None:
        self.topic = topic
        self.partition = partition
        self.size = columns.size
        self.wait = wait
        self.looked_at = False
        self.waiter: Bell | None = None
        self._columns = columns
        self._count = len(columns)
        self._outcome: tuple[Log, Sequence[Numbers], Sequence[Numbers] | None] | Error | None = None
        self._alone: list[SendHandle] | None = None
        self._settled = 0  # how many of those alone are settled, from the first on

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each record."""
        return self._columns.values

    @property
    def keys(self) -> Sequence[bytes | None] | None:
        """The key of each record; None where no record has one."""
        return self._columns.keys

    @property
    def headers(self) -> Sequence[Headers] | None:
        """The headers of each record; None where no record has any."""
        return self._columns.headers

    @property
    def timestamps(self) -> Sequence[int | None] | None:
        """The timestamp of each record, in milliseconds since 1970; None where no record has one."""
        return self._columns.timestamps

    @property
    def ends(self) -> Sequence[int]:
        """The bytes of each record and of those before it: of values, keys and headers."""
        return self._columns.ends

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the named columns that are Arrow arrays."""
        return self._columns.arrow(names)

    @property
    def awaited(self) -> SendRun | SendHandle | None:
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
        """Return the outcome of each record. One that is still on its way has run out of time."""
        if self.is_stored:
            return self.places()
        return [handle.outcome or handle.timed_out() for handle in self.sendings()]

    @property
    def is_stored(self) -> bool:
        """Whether all records were stored at once."""
        return isinstance(self._outcome, tuple)

    # for drivers; a run is settled once, what comes later changes nothing

    def sendings(self) -> Sequence[SendHandle]:
        """Return a handle for each record, to be settled one by one."""
        if self._alone is None:
            none = repeat(None)
            self._alone = [
                SendHandle(self.topic, self.partition, value, key, headers, timestamp, size, self.wait)
                for value, key, headers, timestamp, size in zip(
                    self.values, self.keys or none, self.headers or repeat(()), self.timestamps or none,
                    self._columns.sizes, strict=False,
                )
            ]  # fmt: skip
            self._pass_on()
        return self._alone

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        """Settle all records as stored, with these ids."""
        self._settle((log, coordinates, details))

    def failed(self, error: Error) -> None:
        """Settle all records as proven not to be stored."""
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
        """Settle the single handles with the outcome of the run, once both are there."""
        outcome = self._outcome
        if self._alone is None or outcome is None:
            return
        if isinstance(outcome, Error):
            for handle in self._alone:
                handle.failed(outcome)
            return
        log, coordinates, details = outcome
        for handle, place, detail in zip(self._alone, coordinates, details or repeat(()), strict=False):
            handle.stored(log, place, detail)

    def __repr__(self) -> str:
        return f"<Run of {len(self)} for {self.topic}[{self.partition}]>"
