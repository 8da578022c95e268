"""Writes the golden pages anew. Only a new format version may need that: the old files prove compatibility."""

from __future__ import annotations

from test_page import COLUMNS, GOLDEN

from mqplug_rocksmq._format.page import encode_page

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, (before, columns) in COLUMNS.items():
        (GOLDEN / f"{name}.page").write_bytes(encode_page(columns).seal(before))
