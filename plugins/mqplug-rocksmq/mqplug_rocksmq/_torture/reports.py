"""What the victim says to its torturer: one line of JSON when it begins something, and one when that is done.

``{"thread": 1, "begin": "send", "topic": "a", "partition": 0, "numbers": [7, 9]}``: messages 7 and 8;
``{"thread": 1, "done": {"offsets": [0, 1]}}``. What was begun and not done may or may not have happened.
"""

from __future__ import annotations

from typing import Any, Final

from mqplug import Position, PositionLost

VictimReport = dict[str, Any]
TORTURE_GROUP: Final = "workers"
SHARERS: Final = "sharers"  # the group whose members share
TORTURE_PARTITIONS: Final = 3


def value_for(number: int) -> bytes:
    """Return the content of a message: it names the message, and cannot be taken for that of another."""
    return b"%d:" % number + bytes([number % 251]) * (number * 7919 % 2000)


def number_in(value: bytes | None) -> int | None:
    """Return which message has this content, or None if none has."""
    number, colon, _ = (value or b"").partition(b":")
    if not colon or not number.isdigit() or value_for(int(number)) != value:
        return None
    return int(number)


def low_position(lost: PositionLost) -> Position:
    """Return where a log begins whose first messages were trimmed."""
    if lost.low is None:
        raise lost
    return lost.low


def partition_of(lost: PositionLost) -> int:
    """Return which partition that is."""
    return low_position(lost).log.partition
