"""Milvus' own places in its topics, which it keeps in etcd, as positions and back."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import attrs

import mqplug
from mqplug import Client, Position
from mqplug_milvus._format.events import clock
from mqplug_milvus._format.wire import FormatError, Message

CHECKPOINTS = "meta/datacoord-meta/channel-cp/"
TIMEOUT_S = 10.0
_NONE = 1 << 31  # Pulsar's "no batch index" is -1, as an unsigned number


@attrs.frozen
class Checkpoint:
    """Where Milvus begins to read a topic again, for one shard of a collection."""

    shard: str
    topic: str
    place: bytes
    """The place in Milvus' own form, which depends on the queue."""
    time: int
    """The hybrid time stamp: events up to it are in Milvus' storage."""

    @property
    def at(self) -> Any:
        """The wall clock of the time stamp."""
        return clock(self.time)

    def position(self, mq: Client) -> Position:
        """Return the position at which Milvus begins. Messages there may be as old as `time`: Milvus skips those."""
        return position(mq, self.topic, self.place)


def checkpoints(etcd: str, root: str = "by-dev") -> dict[str, Checkpoint]:
    """Return Milvus' checkpoints by shard, from etcd's address such as ``http://127.0.0.1:2379``."""
    found = {}
    for key, value in _range(etcd, f"{root}/{CHECKPOINTS}").items():
        shard = key.removeprefix(f"{root}/{CHECKPOINTS}")
        stored = Message(memoryview(value))
        topic = shard.rpartition("_")[0]
        found[shard] = Checkpoint(shard, topic, bytes(stored.data(2)), stored.unsigned(4))
    return found


def position(mq: Client, topic: str, place: bytes) -> Position:
    """Return Milvus' place in a topic as a position, for the queue that Milvus uses itself."""
    log = mq.resolve(topic, mqplug.EARLIEST)[0].log
    match mq.backend:
        case "kafka":
            return Position(log, (_number(place),))
        case "pulsar":
            fields = Message(memoryview(place))
            batch = fields.unsigned(4)
            return Position(log, (fields.unsigned(1), fields.unsigned(2), batch if batch < _NONE else 0))
        case other:
            raise mqplug.Unsupported(
                f"Milvus keeps no places in {other}: those of its own RocksMQ are ids of its own files",
                fix="Import its files with `mqplug rocksmq import-milvus`, which says where each id went",
            )


def place(position: Position) -> bytes:
    """Return a position in Milvus' own form, as etcd holds it."""
    match position.log.backend:
        case "kafka":
            return position.coordinates[0].to_bytes(8, "little")
        case "pulsar":
            ledger, entry, batch = position.coordinates
            numbers = enumerate([ledger, entry, 0, max(0, batch)], 1)  # the third is the partition
            return b"".join(_field(number, value) for number, value in numbers)
        case other:
            raise mqplug.Unsupported(f"Milvus keeps no places in {other}")


def _field(number: int, value: int) -> bytes:
    data = bytearray([number << 3])
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def _number(place: bytes) -> int:
    if len(place) != 8:
        raise FormatError(f"a place in Kafka has 8 bytes, not {len(place)}")
    return int.from_bytes(place, "little")


def _range(etcd: str, prefix: str) -> dict[str, bytes]:
    """Return the keys with this prefix, over etcd's JSON gateway, which needs no client."""
    start = prefix.encode()
    end = start[:-1] + bytes([start[-1] + 1])
    asked = {"key": base64.b64encode(start).decode(), "range_end": base64.b64encode(end).decode()}
    if not etcd.startswith(("http://", "https://")):
        raise mqplug.ConfigError(f"{etcd!r} is no address of etcd", fix="Give one such as http://127.0.0.1:2379")
    request = urllib.request.Request(f"{etcd.rstrip('/')}/v3/kv/range", json.dumps(asked).encode())  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            found = json.load(answer)
    except (OSError, ValueError) as error:
        raise mqplug.ConnectError(
            f"no etcd answers at {etcd}: {error}", fix="Give the address of Milvus' etcd"
        ) from error
    return {
        base64.b64decode(each["key"]).decode(): base64.b64decode(each.get("value", "")) for each in found.get("kvs", ())
    }
