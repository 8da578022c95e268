"""Split messages into pages of a suitable size."""

from __future__ import annotations

from typing import Final

from mqplug import MessageTooLarge
from mqplug_rocksmq._format.page import PageBody, PageColumns, encode_page

MAX_PAGE_MESSAGES: Final = 1000
MAX_PAGE_BYTES: Final = 256 << 10
MAX_APPEND_BYTES: Final = 1 << 30


def page_bodies(columns: PageColumns) -> list[PageBody]:
    """Return messages as page bodies of a suitable size."""
    count = len(columns.times)
    size = columns.ends[-1] if columns.ends else sum(map(len, filter(None, columns.values or ())))
    return [encode_page(columns.cut(rows)) for rows in page_rows(count, size)]


def is_full(messages: int, size: int) -> bool:
    """Return whether a page of this many messages and bytes is full."""
    return messages >= MAX_PAGE_MESSAGES or size >= MAX_PAGE_BYTES


def page_rows(count: int, size: int) -> list[slice]:
    """Return the rows of each page, for *count* messages with *size* bytes of values in all."""
    if not count:
        raise ValueError("there are no messages to store")
    if size > MAX_APPEND_BYTES:
        raise MessageTooLarge(f"one append of {size} bytes exceeds the limit of {MAX_APPEND_BYTES} bytes")
    step = max(1, min(MAX_PAGE_MESSAGES, MAX_PAGE_BYTES * count // max(size, 1)))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
