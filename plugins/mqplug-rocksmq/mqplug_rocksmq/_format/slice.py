"""Slices: some messages of one page, with the offsets they have in their log."""

from __future__ import annotations

from typing import NamedTuple

from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._format.single_pages import Singles


class Slice(NamedTuple):
    """Some messages of one page, or of a run of small ones: the offsets ``base + start`` up to ``base + stop``."""

    base: int
    page: Page | Singles
    start: int
    stop: int

    @property
    def end(self) -> int:
        """The offset behind the last message."""
        return self.base + self.stop

    def as_page(self) -> Page:
        """Return a page of the same messages."""
        return self.page if isinstance(self.page, Page) else self.page.as_page()

    def __len__(self) -> int:
        return self.stop - self.start
