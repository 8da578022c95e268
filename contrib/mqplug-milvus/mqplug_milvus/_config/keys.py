"""The keys of ``milvus.yaml``, and how Milvus compares them.

Milvus' parameter table ignores case, ``_``, ``/`` and ``.``, in files and in the environment: ``kafka.brokerList``,
``kafka.broker_list`` and ``KAFKA_BROKER_LIST`` are one key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

import attrs

from mqplug.introspection import Complaint, Given, quoted

MILVUS_SECTIONS: Final = ("mq", "kafka", "pulsar", "rocksmq")
OPTION_SECTIONS: Final = ("kafka.consumer", "kafka.producer")

TAKEN: Final = ""  # no reason to leave the key alone: it is used
_STREAMS: Final = "tunes Milvus' own streams"
_NATIVE: Final = "tunes Milvus' own client; set it under kafka.librdkafka"
_CLIENT: Final = "tunes Milvus' own client"
_STORE: Final = "tunes Milvus' own store"

_KEYS: Final[Mapping[str, str]] = {
    "mq.type": TAKEN,
    "mq.enablePursuitMode": _STREAMS,
    "mq.pursuitLag": _STREAMS,
    "mq.pursuitBufferSize": _STREAMS,
    "mq.pursuitBufferTime": _STREAMS,
    "mq.mqBufSize": _STREAMS,
    "mq.receiveBufSize": _STREAMS,
    "mq.ignoreBadPosition": _STREAMS,
    "mq.dispatcher.mergeCheckInterval": _STREAMS,
    "mq.dispatcher.targetBufSize": _STREAMS,
    "mq.dispatcher.maxTolerantLag": _STREAMS,
    "mq.dispatcher.maxDispatcherNumPerPchannel": _STREAMS,
    "mq.dispatcher.retrySleep": _STREAMS,
    "mq.dispatcher.retryTimeout": _STREAMS,
    "kafka.brokerList": TAKEN,
    "kafka.brokers": TAKEN,
    "kafka.port": TAKEN,
    "kafka.saslUsername": TAKEN,
    "kafka.saslPassword": TAKEN,
    "kafka.saslMechanisms": TAKEN,
    "kafka.securityProtocol": TAKEN,
    "kafka.ssl.enabled": TAKEN,
    "kafka.ssl.tlsCert": TAKEN,
    "kafka.ssl.tlsKey": TAKEN,
    "kafka.ssl.tlsCaCert": TAKEN,
    "kafka.ssl.tlsKeyPassword": TAKEN,
    "kafka.readTimeout": "every call has its own timeout=",
    "kafka.queuedmaxkbytes": "pass prefetch_bytes= when you open a consumer",
    "pulsar.address": TAKEN,
    "pulsar.port": TAKEN,
    "pulsar.webport": TAKEN,
    "pulsar.webaddress": TAKEN,
    "pulsar.tenant": TAKEN,
    "pulsar.namespace": TAKEN,
    "pulsar.maxMessageSize": TAKEN,
    "pulsar.authPlugin": TAKEN,
    "pulsar.authParams": TAKEN,
    "pulsar.requestTimeout": "every call has its own timeout=",
    "pulsar.enableClientMetrics": _CLIENT,
    "pulsar.backlogAutoClearBytes": _CLIENT,
    "pulsar.producerAccessMode": _CLIENT,
    "rocksmq.path": TAKEN,
    "rocksmq.retentionTimeInMinutes": TAKEN,
    "rocksmq.retentionSizeInMB": TAKEN,
    "rocksmq.lrucacheratio": "set memory_max_bytes=",
    "rocksmq.rocksmqPageSize": _STORE,
    "rocksmq.compactionInterval": _STORE,
    "rocksmq.timtickerInterval": "set retention_interval=",
    "rocksmq.compressionTypes": "set compression=",
}
_QUEUES: Final = ("natsmq", "woodpecker")
_OTHERS: Final = (
    *_QUEUES, "autoIndex", "common", "credential", "dataCoord", "dataNode", "etcd", "function", "gpu", "grpc",
    "indexCoord", "indexNode", "internaltls", "knowhere", "localStorage", "log", "metastore", "minio", "mixCoord",
    "proxy", "queryCoord", "queryNode", "quotaAndLimits", "rootCoord", "storage", "streaming", "streamingNode", "tikv",
    "tls", "trace",
)  # fmt: skip

_SHORT_NAME_LETTERS: Final = 3  # half the letters are enough to recognize a shorter name
_SEPARATORS: Final = re.compile(r"[/_.]")


def plain(key: str) -> str:
    """Return a key as Milvus compares it."""
    return _SEPARATORS.sub("", key).lower()


KNOWN_KEYS: Final[Mapping[str, str]] = {plain(key): key for key in _KEYS}
_SECTIONS: Final[Mapping[str, str]] = {plain(name): name for name in MILVUS_SECTIONS}
_OPTIONS: Final[Mapping[str, str]] = {plain(name): name for name in OPTION_SECTIONS}
_STRANGERS: Final = frozenset(map(plain, _OTHERS))
_OWN_WORDS: Final = KNOWN_KEYS.keys() - {plain(each) for each in ("rocksmq.path", "pulsar.tenant", "pulsar.namespace")}


@attrs.define
class MilvusKeys:
    """The sorted keys of a file: known keys, options of Kafka's client, unknown sections, and complaints."""

    keys: dict[str, list[Given]] = attrs.field(factory=dict)
    options: dict[str, dict[str, Given]] = attrs.field(factory=dict)
    strangers: list[str] = attrs.field(factory=list)
    complaints: list[Complaint] = attrs.field(factory=list)


def is_milvus_shaped(content: Mapping[str, Any]) -> bool:
    """Return whether a file has sections or keys that only Milvus' configuration has."""
    parts = [(path, value) for path, value in _leaves(content, ()) if path]
    return any(plain(path[0]) in _STRANGERS | {"mq"} or plain(".".join(path)) in _OWN_WORDS for path, _ in parts)


def sort_keys(content: Mapping[str, Any], source: str) -> MilvusKeys:
    """Sort the keys of a file. None is dropped."""
    found = MilvusKeys()
    for path, value in _leaves(content, ()):
        called, key = ".".join(path), plain(".".join(path))
        given = Given(value, source, f"{called} in {source}")
        option = _option(path)
        if option is not None:
            found.options.setdefault(option, {})[".".join(path[2:])] = given
        elif key in KNOWN_KEYS:
            found.keys.setdefault(KNOWN_KEYS[key], []).append(given)
        elif path and (complaint := _misspelt(path, source)) is not None:
            found.complaints.append(complaint)
        elif path and path[0] not in found.strangers:
            found.strangers.append(path[0])
    return found


def reason_to_leave(key: str) -> str:
    """Return why a key is not used, or an empty string if it is used."""
    return _KEYS[key]


def reason_to_pass(section: str) -> str:
    """Return why a section that is not about message queues is skipped."""
    return "a queue that mqplug does not support" if plain(section) in _QUEUES else "not about the message queue"


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value that is not a table, with its path; a known key may hold a table."""
    if isinstance(value, Mapping) and value and plain(".".join(path)) not in KNOWN_KEYS:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, *re.split(r"[./]", str(key))))
    else:
        yield path, value


def _option(path: tuple[str, ...]) -> str | None:
    """Return the table of client options in which a path lies."""
    return _OPTIONS.get(plain(".".join(path[:2]))) if len(path) > len(("kafka", "consumer")) else None


def _misspelt(path: tuple[str, ...], source: str) -> Complaint | None:
    """Return the complaint about an unknown key of the queues' sections, or about one that resembles such a key."""
    called, section = ".".join(path), plain(path[0])
    if section in _SECTIONS:
        return _unknown(called, source, section)
    if section in _STRANGERS:
        return None
    if _near(section, _SECTIONS):
        hint = f"Did you mean {_near(section, _SECTIONS)!r}?"
        return Complaint(f"unknown section {quoted(f'{path[0]} in {source}')}", hint)
    return _unknown(called, source, "") if get_close_matches(plain(called), KNOWN_KEYS, n=1, cutoff=0.8) else None


def _unknown(called: str, source: str, section: str) -> Complaint:
    known = [key.removeprefix(section) for key in KNOWN_KEYS if key.startswith(section)]
    near = get_close_matches(plain(called).removeprefix(section), known, n=1)
    hint = f"Did you mean {KNOWN_KEYS[section + near[0]]!r}?" if near else "Remove it, if a newer Milvus added it"
    return Complaint(f"unknown key {quoted(f'{called} in {source}')}", hint)


def _near(section: str, names: Mapping[str, str]) -> str | None:
    likeness = {name: SequenceMatcher(None, section, name).ratio() for name in names}
    near = [name for name in names if likeness[name] >= (0.5 if len(name) < _SHORT_NAME_LETTERS else 0.75)]
    return names[max(near, key=likeness.__getitem__)] if near else None
