"""The victim's reports to the torturer: one line of JSON before each operation, and one after it.

``{"thread": 1, "begin": "send", "topic": "a", "partition": 0, "numbers": [7, 9]}``: messages 7 and 8;
``{"thread": 1, "done": {"offsets": [0, 1]}}``. An operation that was begun but not done may or may not have happened.
"""

from __future__ import annotations

from typing import Any, Final

from mqplug import Position, PositionLost

VictimReport = dict[str, Any]
TORTURE_GROUP: Final = "workers"
SHARERS: Final = "sharers"  # the group in mode shared
TORTURE_PARTITIONS: Final = 3


def value_for(number: int) -> bytes:
    """Return the value of a message. It identifies the message."""
    return b"%d:" % number + bytes([number % 251]) * (number * 7919 % 2000)


def number_in(value: bytes | None) -> int | None:
    """Return the number of the message with this value, or None if there is none."""
    number, colon, _ = (value or b"").partition(b":")
    if not colon or not number.isdigit() or value_for(int(number)) != value:
        return None
    return int(number)


def low_position(lost: PositionLost) -> Position:
    """Return the position at which a trimmed log begins."""
    if lost.low is None:
        raise lost
    return lost.low


def partition_of(lost: PositionLost) -> int:
    """Return the partition of a trimmed log."""
    return low_position(lost).log.partition
