from __future__ import annotations

from pathlib import Path

import pytest
from rocksmq_stores import line, python, store_settings, values
from store_seam import Store, tear_tail

WRITER = """
store = open_store(path, store_settings(sync="os"))
log = new_log(store)
def left():
    newest = max((path / "rocksdb").glob("*.log"), key=lambda file: int(file.stem))
    return 32768 - newest.stat().st_size % 32768
put(store, log, b"")
before = left()
put(store, log, b"")
each = before - left()
count = 2
while left() >= int(sys.argv[2]):
    put(store, log, b"x" * (max(0, left() - each - 12) if 300 < left() < 1500 else 0))
    count += 1
print(count, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("room", [20, 40000])
def test_half_a_write_at_the_end_of_a_block(path: Path, room: int) -> None:
    """A torn write at the end is dropped anywhere in RocksDB's log, even where it fills a block of that log."""
    with python(WRITER, path, room) as process:
        count = int(line(process))
        process.wait(20)
    tear_tail(path)
    store = Store(path, store_settings(sync="os"))
    try:
        assert len(values(store, store.topics.get("orders").logs[0])) == count
    finally:
        store.close()
