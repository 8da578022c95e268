"""The numbering of messages: the coordinates of each personality, like those of Kafka, Pulsar or mqplug itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug._model.errors import Unsupported
from mqplug.spi import Numbers


class Dense:
    """The coordinates of one partition, which are offsets without gaps: assigns new ones, and computes positions."""

    width = 1
    """The number of integers in the coordinates."""

    def __init__(self, ledgers: Iterator[int]) -> None:
        self._next = 0

    def place(self, count: int) -> tuple[list[Numbers], list[Numbers]]:
        """Return coordinates and details for the messages of a new batch."""
        first, self._next = self._next, self._next + count
        return [(offset,) for offset in range(first, first + count)], [()] * count

    @property
    def end(self) -> Numbers:
        """The position of the next stored message."""
        return (self._next,)

    @staticmethod
    def before(coordinates: Numbers) -> Numbers:
        """Return the position right before a message."""
        return coordinates

    @staticmethod
    def behind(coordinates: Numbers, detail: Numbers) -> Numbers:  # noqa: ARG004 - the offset is enough
        """Return the position right after a message."""
        return (coordinates[0] + 1,)

    @staticmethod
    def is_possible(coordinates: Numbers) -> bool:
        """Return whether an id or a position can have these coordinates."""
        return len(coordinates) == 1 and coordinates[0] >= 0

    @staticmethod
    def advance(coordinates: Numbers, count: int) -> Numbers:
        """Return the position ``count`` messages further along. Raise ``Unsupported`` if it cannot be computed."""
        return (coordinates[0] + count,)

    def removable(self, places: Sequence[Numbers], wanted: int) -> int:
        """Return how many messages can be removed from the beginning, up to ``wanted``."""
        return wanted

    def count(self, places: Sequence[Numbers], begin: Numbers) -> int:
        """Return how many messages lie after a position, as exactly as the backend can count."""
        return sum(each >= begin for each in places)

    def roll(self) -> None:
        """Make the stored messages removable without later ones. Here any message is, at any time."""


class Marked(Dense):
    """Kafka's coordinates: after each batch, a marker like a transaction's takes an offset without being a message."""

    def place(self, count: int) -> tuple[list[Numbers], list[Numbers]]:
        placed = super().place(count)
        self._next += 1
        return placed

    @staticmethod
    def is_possible(coordinates: Numbers) -> bool:
        return len(coordinates) == 1 and 0 <= coordinates[0] < MAX_COORDINATE

    @staticmethod
    def advance(coordinates: Numbers, count: int) -> Numbers:
        return (min(coordinates[0] + count, MAX_COORDINATE - 1),)

    def count(self, places: Sequence[Numbers], begin: Numbers) -> int:
        return max(0, self._next - begin[0]) if places else 0


MAX_COORDINATE = 2**63 - 1  # brokers count with 64 bits; messages are below, so that a position can follow each
ENTRY_MESSAGES = 10  # messages of one entry
LEDGER_ENTRIES = 5  # entries of one ledger


class Entries:
    """Pulsar's coordinates: (ledger, entry, index in the entry), with index -1 if the entry holds one message.

    The store assigns ledger numbers, each only once. Only whole ledgers can be removed, and never the open one.
    """

    width = 3

    def __init__(self, ledgers: Iterator[int]) -> None:
        self._ledgers = ledgers
        self._ledger = next(ledgers)
        self._entry = 0

    def place(self, count: int) -> tuple[list[Numbers], list[Numbers]]:
        places: list[Numbers] = []
        details: list[Numbers] = []
        while count:
            size = min(count, ENTRY_MESSAGES)
            ledger, entry = self._new_entry()
            places += [(ledger, entry, index) for index in range(size)] if size > 1 else [(ledger, entry, -1)]
            details += [(size,)] * size if size > 1 else [()]
            count -= size
        return places, details

    def _new_entry(self) -> tuple[int, int]:
        if self._entry == LEDGER_ENTRIES:
            self.roll()
        self._entry += 1
        return self._ledger, self._entry - 1

    @property
    def end(self) -> Numbers:
        return (self._ledger, self._entry, -1)

    @staticmethod
    def before(coordinates: Numbers) -> Numbers:
        return (*coordinates[:2], -1) if coordinates[2] <= 0 else coordinates

    @staticmethod
    def behind(coordinates: Numbers, detail: Numbers) -> Numbers:
        ledger, entry, index = coordinates
        if index < 0 or (detail and index + 1 >= detail[0]):
            return (ledger, entry + 1, -1)
        return (ledger, entry, index + 1)

    @staticmethod
    def is_possible(coordinates: Numbers) -> bool:
        match coordinates:
            case (ledger, entry, index):
                return 0 <= ledger < MAX_COORDINATE and 0 <= entry < MAX_COORDINATE and -1 <= index < MAX_COORDINATE
        return False

    @staticmethod
    def advance(coordinates: Numbers, count: int) -> Numbers:  # noqa: ARG004 - the broker decides where ledgers end
        raise Unsupported("advance")

    def removable(self, places: Sequence[Numbers], wanted: int) -> int:
        kept = places[wanted][0] if wanted < len(places) else self._ledger
        return sum(each[0] < kept for each in places)

    def count(self, places: Sequence[Numbers], begin: Numbers) -> int:
        return len({each[:2] for each in places if each >= begin})

    def roll(self) -> None:
        if self._entry:
            self._ledger, self._entry = next(self._ledgers), 0


Numbering = Dense | Entries
"""The coordinates of one partition. ``Dense`` documents what both do."""
