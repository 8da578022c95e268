"""The ids of a batch that was sent, each made when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, cast, overload

import attrs

from mqplug._model.errors import Error, SendFailed
from mqplug._model.ids import MessageId
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._produce.handle import IdParts
    from mqplug._produce.splitting import Rows


class SentIds(Sequence[MessageId]):
    """The ids of a sent batch, in order. Equal to a list of the same ids."""

    __slots__ = ("_count", "_find", "_found")

    def __init__(self, count: int, find: Callable[[], Sequence[IdParts]]) -> None:
        self._count = count
        self._find = find
        self._found: Sequence[IdParts] | None = None

    @property
    def _places(self) -> Sequence[IdParts]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        if isinstance(index, slice):
            return list(starmap(MessageId, self._places[index]))
        return MessageId(*self._places[index])

    def __iter__(self) -> Iterator[MessageId]:
        return starmap(MessageId, self._places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SentIds | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __repr__(self) -> str:
        return repr(list(self))


@attrs.frozen
class SentBatch:
    """A batch of ``count`` records: its runs, each with its rows, and the rows that were refused."""

    count: int
    runs: Sequence[tuple[SendRun, Rows]]
    refused: dict[int, Error]

    def ids(self) -> Sequence[MessageId]:
        """Return the id of each record, or raise ``SendFailed``. A record that is not settled by now is out of time."""
        for run, _ in self.runs:
            run.was_seen = True
        if not self.refused and all(run.is_stored for run, _ in self.runs):
            return SentIds(self.count, self._places)
        results = self._results()
        failed = [each for each in results if isinstance(each, Error)]
        if failed:
            raise SendFailed(
                f"{len(failed)} of {self.count} messages failed, first: {failed[0]}",
                results=[each if isinstance(each, Error) else MessageId(*each) for each in results],
            ) from failed[0]
        return SentIds(self.count, self._places)

    def _places(self) -> list[IdParts]:
        return cast("list[IdParts]", self._results())

    def _results(self) -> Sequence[IdParts | Error]:
        if len(self.runs) == 1 and not self.refused:
            return self.runs[0][0].results()
        found: dict[int, IdParts | Error] = {**self.refused}
        for run, rows in self.runs:
            found.update(zip(rows, run.results(), strict=True))
        return [found[row] for row in range(self.count)]
