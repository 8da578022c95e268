"""The files of Milvus' own RocksMQ, read and never written: two RocksDBs, of messages and of metadata.

A message's key is its topic, a slash, and its id in decimal digits: one counter for all topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rocksdict import AccessType, Options, Rdict

from mqplug import ConfigError, Corrupt
from mqplug_rocksmq._engine.rocks import links_to

METADATA: Final = "_meta_kv"
TOPIC: Final = b"topic_id/"
AT_ONCE: Final = 1000


class MilvusFiles:
    """A snapshot of the files, as they are when it is opened. Milvus may be running."""

    def __init__(self, path: Path) -> None:
        metadata = path.with_name(path.name + METADATA)
        for each in (path, metadata):
            if not (each / "CURRENT").exists():
                raise ConfigError(
                    f"{path} is not Milvus' RocksMQ: {each} holds no database",
                    fix=f"Give the directory that rocksmq.path of milvus.yaml names, beside which {metadata.name} lies",
                )
        self._path = path
        self._links: list[TemporaryDirectory[str]] = []
        self._messages = self._open(path)
        self._metadata = self._open(metadata)

    def __enter__(self) -> MilvusFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the databases."""
        for database in (self._messages, self._metadata):
            database.close()
        for links in self._links:
            links.cleanup()

    def topics(self) -> list[str]:
        """Return the names of all topics, empty ones too."""
        return [key.removeprefix(TOPIC).decode() for key, _ in _scan(self._metadata, TOPIC, TOPIC)]

    def messages(self, topic: str) -> Iterator[tuple[int, bytes]]:
        """Yield the id and the value of each message of a topic, in order."""
        prefix = topic.encode() + b"/"
        start = prefix
        while found := _scan(self._messages, prefix, start):
            for key, value in found:
                yield self._id(key, len(prefix)), value
            start = found[-1][0] + b"\0"

    def _id(self, key: bytes, at: int) -> int:
        digits = key[at:]
        if not digits.isdigit():
            raise Corrupt(f"{self._path} has the key {key!r}, which is no message of Milvus 2.1 to 2.5")
        return int(digits)

    def _open(self, path: Path) -> Rdict:
        links = links_to(path)
        self._links.append(links)
        try:
            return Rdict(links.name, Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:
            raise Corrupt(
                f"RocksDB cannot read {path}: {error}",
                fix="Stop Milvus and try again; files of a newer RocksDB, or with a compression that rocksdict does "
                "not have, cannot be imported",
            ) from error


def _scan(database: Any, prefix: bytes, start: bytes) -> list[tuple[bytes, bytes]]:
    """Return the next entries from this key on. The iterator ends here, because a live one keeps the database open."""
    found: list[tuple[bytes, bytes]] = []
    cursor = database.iter()
    cursor.seek(start)
    while cursor.valid() and len(found) < AT_ONCE:
        key: bytes = cursor.key()
        if not key.startswith(prefix):
            break
        found.append((key, cursor.value()))
        cursor.next()
    cursor.status()
    return found
