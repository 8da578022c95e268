"""A damaged list of RocksDB's files, CURRENT or MANIFEST, while everything stored is in the write-ahead log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from refused_openings import connect
from rocksmq_stores import nightly, python
from store_seam import check_store, repair_store

from mqplug import Corrupt

Damage = Callable[[Path], object]

KILLED = """
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders", partitions=2)
    with mq.producer("orders") as out, mq.consumer("orders", group="billing") as reader:
        for number in range(50):
            out.send(b"%d" % number)
        for message in (reader.receive(10), reader.receive(10)):
            print(message.id)
            reader.ack(message)
        reader.commit()
        print(*sorted(str(message.id) for message in mq.read("orders")), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def manifest(database: Path) -> Path:
    """Return the list of the database's files."""
    [found] = database.glob("MANIFEST-*")
    return found


def flip(file: Path) -> None:
    """Flip a bit in the middle of a file."""
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


DAMAGES: dict[str, Damage] = {
    "CURRENT is gone": lambda database: (database / "CURRENT").unlink(),
    "CURRENT is empty": lambda database: (database / "CURRENT").write_bytes(b""),
    "CURRENT is garbage": lambda database: (database / "CURRENT").write_bytes(bytes(range(16))),
    "MANIFEST is gone": lambda database: manifest(database).unlink(),
    "MANIFEST is empty": lambda database: manifest(database).write_bytes(b""),
    "MANIFEST has a flipped bit": lambda database: flip(manifest(database)),
}

DAY = ("CURRENT is gone", "MANIFEST is empty")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store whose first owner was killed, and the ids of its messages."""
    path = tmp_path_factory.mktemp("killed") / "store"
    with python(KILLED, path) as process:
        said = process.communicate(timeout=60)[0].splitlines()
    assert not list(path.glob("rocksdb/*.sst"))
    return path, said[-1].split()


@pytest.mark.parametrize("damage", [*DAY, *nightly(*sorted({*DAMAGES} - {*DAY}))])
def test_nothing_is_lost(path: Path, killed: tuple[Path, list[str]], damage: str) -> None:
    """A repair restores the list of files and everything in the write-ahead log, with its ids and positions."""
    source, ids = killed
    shutil.copytree(source, path)
    DAMAGES[damage](path / "rocksdb")
    with pytest.raises(Corrupt, match="mqplug rocksmq repair"):
        connect(path)
    assert not check_store(path).sound
    assert repair_store(path).report.messages == 50
    assert check_store(path).findings == []
    with connect(path) as mq:
        assert sorted(str(message.id) for message in mq.read("orders")) == ids
        assert sum(mq.lag("orders", group="billing").values()) == 48


@pytest.mark.night
@pytest.mark.parametrize("life", [1, 2])
def test_tables_and_a_log(path: Path, killed: tuple[Path, list[str]], life: int) -> None:
    """Nothing is lost if some messages are in tables already, wherever the list of files is cut off."""
    source, ids = killed
    shutil.copytree(source, path)
    for _ in range(life):
        connect(path).close()
    with python('os.kill(os.getpid(), signal.SIGKILL) if mqplug.connect("rocksmq", path=str(path)) else 0', path) as it:
        it.wait(60)
    raw = manifest(path / "rocksdb").read_bytes()
    for cut in range(0, len(raw), 40):
        copy = path.with_name("copy")
        shutil.copytree(path, copy)
        manifest(copy / "rocksdb").write_bytes(raw[:cut])
        repair_store(copy)
        assert check_store(copy).findings == []
        with connect(copy) as mq:
            assert sorted(str(message.id) for message in mq.read("orders")) == ids
        shutil.rmtree(copy)


@pytest.mark.parametrize("pattern", ["*.log", "MANIFEST-*"])
def test_a_record_of_another_kind(path: Path, killed: tuple[Path, list[str]], pattern: str) -> None:
    """A flipped bit in a record's kind, which makes RocksDB read forever, is an error at once, and is repaired."""
    source, ids = killed
    shutil.copytree(source, path)
    [file] = path.glob(f"rocksdb/{pattern}")
    raw = bytearray(file.read_bytes())
    second = 7 + int.from_bytes(raw[4:6], "little")
    assert raw[second + 6] == 1
    raw[second + 6] = 5
    file.write_bytes(raw)
    with pytest.raises(Corrupt, match="record of a kind"):
        connect(path)
    assert repair_store(path).report.findings
    assert check_store(path).findings == []
    with connect(path) as mq:
        found = {str(message.id) for topic in mq.topics() for message in mq.read(topic)}
        assert found <= {*ids} if pattern == "*.log" else found == {*ids}
