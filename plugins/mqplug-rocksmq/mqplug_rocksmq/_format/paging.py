"""How many messages go into a page, and messages as pages that have no place in a log yet."""

from __future__ import annotations

from typing import Final

from mqplug import MessageTooLarge
from mqplug_rocksmq._format.page import PageBody, PageColumns, encode_page

MAX_PAGE_MESSAGES: Final = 1000
MAX_PAGE_BYTES: Final = 256 << 10
MAX_APPEND_BYTES: Final = 1 << 30


def page_bodies(columns: PageColumns) -> list[PageBody]:
    """Return messages as pages of a good size."""
    count = len(columns.times)
    size = columns.ends[-1] if columns.ends else sum(map(len, filter(None, columns.values or ())))
    return [encode_page(columns.cut(rows)) for rows in page_rows(count, size)]


def is_full(messages: int, size: int) -> bool:
    """Whether that is as much as a page should hold."""
    return messages >= MAX_PAGE_MESSAGES or size >= MAX_PAGE_BYTES


def page_rows(count: int, size: int) -> list[slice]:
    """Cut messages whose values have *size* bytes in all into rows for a page each."""
    if not count:
        raise ValueError("there is nothing to store")
    if size > MAX_APPEND_BYTES:
        raise MessageTooLarge(f"{size} bytes at once are more than the {MAX_APPEND_BYTES} that a store takes")
    step = max(1, min(MAX_PAGE_MESSAGES, MAX_PAGE_BYTES * count // max(size, 1)))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
