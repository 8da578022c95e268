"""The verdict: compares the received messages with the acknowledged ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

StoredPlace = tuple[int, tuple[int, ...]]  # the partition and the coordinates of an id
ReceivedValues = Sequence[tuple[StoredPlace, bytes]]


@attrs.frozen
class DemoReading:
    """One reading of the log: the expected messages, and the received ones in order.

    ``stored`` maps each value to its acknowledged place. A value in ``possible`` was unacknowledged when its sender
    died: it may be stored or not. Values are unique, and contain their writer and number.
    """

    stored: Mapping[bytes, StoredPlace]
    received: ReceivedValues
    possible: frozenset[bytes] = frozenset()


@attrs.frozen
class Findings:
    """The number of wrong messages, by kind."""

    lost: int = 0
    twice: int = 0
    reordered: int = 0
    altered: int = 0

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            self.lost + other.lost,
            self.twice + other.twice,
            self.reordered + other.reordered,
            self.altered + other.altered,
        )

    @property
    def clean(self) -> bool:
        """Whether no message is wrong."""
        return self == Findings()

    def __str__(self) -> str:
        text = f"{self.lost} lost  {self.twice} twice  {self.reordered} reordered"
        return f"{text}  {self.altered} altered" if self.altered else text


def judge(run: DemoReading) -> Findings:
    """Return the wrong messages of one reading.

    Lost: acknowledged, and not received. Twice: received again. Reordered: within a partition, an id or a writer's
    number came after a higher one. Altered: received, but never sent, or at another place than acknowledged.
    """
    first: dict[bytes, StoredPlace] = {}
    for place, value in run.received:
        first.setdefault(value, place)
    return Findings(
        lost=len(run.stored.keys() - first.keys()),
        twice=len(run.received) - len(first),
        reordered=_reordered(first),
        altered=sum(not _is_right(run, value, place) for value, place in first.items()),
    )


def payload_of(writer: str, number: int) -> bytes:
    """Return the payload of this message of a writer: 64 bytes."""
    return b"%s %d " % (writer.encode(), number) + b"." * (62 - len(writer) - len(str(number)))


def _is_right(run: DemoReading, value: bytes, place: StoredPlace) -> bool:
    if value in run.stored:
        return run.stored[value] == place
    return value in run.possible


def _reordered(first: Mapping[bytes, StoredPlace]) -> int:
    count = 0
    last_coordinates: dict[int, tuple[int, ...]] = {}
    last_number: dict[tuple[int, bytes], int] = {}
    for value, (partition, coordinates) in first.items():
        writer, number = _writer_and_number(value)
        of_writer = (partition, writer)
        if coordinates <= last_coordinates.get(partition, ()) or number <= last_number.get(of_writer, -1):
            count += 1
        last_coordinates[partition] = max(coordinates, last_coordinates.get(partition, ()))
        last_number[of_writer] = max(number, last_number.get(of_writer, -1))
    return count


def _writer_and_number(value: bytes) -> tuple[bytes, int]:
    """Return the writer and the number in a payload. A foreign payload has no number (it counts as altered)."""
    writer, _, rest = value.partition(b" ")
    number = rest.partition(b" ")[0]
    return (writer, int(number)) if number.isdigit() else (value, 0)
