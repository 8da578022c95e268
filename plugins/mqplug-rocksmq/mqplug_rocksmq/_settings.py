"""The settings of a store, checked: one class from ``mqplug.connect`` down to RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Action, AlterTopic, CreateTopic, Url, retention_seconds

BACKEND: Final = "rocksmq"
PLUGIN_VERSION: Final = "0.1.0"
MIN_DISK_BYTES: Final = 64 << 20
MAX_DISK_BYTES: Final = 1 << 60
MIN_MEMORY_BYTES: Final = 64 << 20
MAX_MEMORY_BYTES: Final = 1 << 40
MIN_CLIENTS_BYTES: Final = 16 << 20
MAX_CLIENT_CONNECTIONS: Final = 1 << 14
MAX_SECONDS: Final = 1_000_000.0
MAX_MESSAGE_BYTES: Final = 1 << 29  # offsets in a page have 31 bits
DEFAULT_SYNC_INTERVAL_S: Final = 0.1
MAX_ACKED_RANGES: Final = 100_000  # above a group's position: each commit writes all, and receiving waits at the limit

Sync = Literal["always", "interval", "os"]
Compression = Literal["lz4", "zstd", "none"]
Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _seconds(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value <= MAX_SECONDS:
        raise ValueError(f"{attribute.name} is {value}; it must be greater than 0 and at most {MAX_SECONDS:g}")


def _between(least: int, most: int) -> Validator:
    def check(_: object, attribute: attrs.Attribute[Any], value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} is {value}; it must be from {least} to {most}")

    return check


def _retention(_: object, attribute: attrs.Attribute[Any], value: float | timedelta | None) -> None:
    try:
        retention_seconds(value)
    except ValueError as error:
        raise ValueError(f"{error}; in a file or a URL write '{value:g}d' or '{value:g}s'") from None


def _directory(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not value or "\0" in value:
        raise ValueError(f"{attribute.name} is empty or contains a zero byte")
    try:
        Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"{attribute.name} begins with {Path(value).parts[0]}, but no such user exists") from None


def _optional(validator: Validator) -> Validator:
    return attrs.validators.optional(validator)


_CLIENTS_OWN: Final = frozenset({"path", "retention", "retention_bytes", "message_max_bytes", "create"})


@attrs.frozen(kw_only=True)
class RocksMQSettings:
    """How a client opens a store.

    ``path`` is the directory of the store. It is created if it is missing, unless ``create`` is False: then a missing
    store is an error.
    ``sync`` determines when a send is done: "always" when it is on disk; "interval" at once, with a sync every
    ``sync_interval`` seconds (default 0.1, an error with the other modes); "os" at once, and the operating system
    decides when to write. No mode loses a message when the process dies. When the host dies, the last two lose the
    end of the log.
    ``retention`` is how long topics created by this client keep their messages unless they set it themselves: a
    timedelta, or at least 60 seconds; the default is seven days. ``retention_bytes`` limits the size of each of their
    partitions; the default is unlimited. ``retention_interval`` is the time between two searches for old messages, in
    seconds.
    ``message_max_bytes`` limits the size of one message. ``disk_max_bytes`` limits the disk space of the store: above
    it, the oldest messages of all topics are dropped first. ``memory_max_bytes`` limits RocksDB's memory.
    ``compression`` applies to the tables on disk.
    ``session_timeout`` is the number of seconds of silence after which a group's member in another process loses its
    messages to other members. ``ballast_max_bytes`` limits the disk space that a store reserves for the time when the
    disk is full: as much as the store itself uses, up to half of ``memory_max_bytes`` or an eighth of
    ``disk_max_bytes``; 0 reserves none.
    ``clients_max_bytes`` limits the owner's memory for requests and answers of client processes.
    ``client_connections_max`` limits the number of their connections: one for each producer, each consumer and each
    call in progress.
    """

    path: str = attrs.field(validator=_directory, metadata={"address": True})
    sync: Sync = "always"
    sync_interval: float | None = attrs.field(default=None, validator=_optional(_seconds))
    retention: float | timedelta | None = attrs.field(default=None, validator=_retention)
    retention_bytes: int | None = attrs.field(default=None, validator=_optional(_between(1, MAX_DISK_BYTES)))
    retention_interval: float = attrs.field(default=60.0, validator=_seconds)
    message_max_bytes: int = attrs.field(default=1_000_000, validator=_between(1, MAX_MESSAGE_BYTES))
    disk_max_bytes: int | None = attrs.field(
        default=None, validator=_optional(_between(MIN_DISK_BYTES, MAX_DISK_BYTES))
    )
    memory_max_bytes: int = attrs.field(default=256 << 20, validator=_between(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES))
    compression: Compression = "lz4"
    session_timeout: float = attrs.field(default=30.0, validator=_seconds)
    ballast_max_bytes: int | None = attrs.field(default=None, validator=_optional(_between(0, MAX_DISK_BYTES)))
    clients_max_bytes: int = attrs.field(default=256 << 20, validator=_between(MIN_CLIENTS_BYTES, MAX_MEMORY_BYTES))
    client_connections_max: int = attrs.field(default=2000, validator=_between(1, MAX_CLIENT_CONNECTIONS))
    create: bool = attrs.field(default=True, metadata={"creates": True})

    def __attrs_post_init__(self) -> None:
        if self.sync_interval is not None and self.sync != "interval":
            text = f"sync_interval is given, but sync is {self.sync}"
            raise _contradiction(text, "Set sync=interval, or leave sync_interval out")
        for name in ("memory_max_bytes", "disk_max_bytes"):
            most = getattr(self, name)
            if most is not None and self.message_max_bytes > most // 8:
                text = f"message_max_bytes is {self.message_max_bytes}, more than an eighth of {name}, which is {most}"
                raise _contradiction(text, f"Lower message_max_bytes, or raise {name}")

    @property
    def interval(self) -> float:
        """The seconds between two syncs in mode "interval"."""
        return DEFAULT_SYNC_INTERVAL_S if self.sync_interval is None else self.sync_interval

    @property
    def directory(self) -> Path:
        """The directory of the store."""
        return Path(self.path).expanduser()

    def differences(self, other: RocksMQSettings) -> list[str]:
        """Return the names of the store's own settings that differ in *other*.

        Clients that share an open store must agree on them. Each client's own settings may differ.
        """
        here, there = (attrs.asdict(each) | {"sync_interval": each.interval} for each in (self, other))
        return [name for name, value in here.items() if name not in _CLIENTS_OWN and value != there[name]]

    def filled_in(self, action: Action) -> Action:
        """Return the action. One that creates a topic without a retention gets the retention of these settings.

        Raise ``ConfigError`` for a topic option: RocksMQ has none.
        """
        if isinstance(action, CreateTopic | AlterTopic) and action.options:
            raise ConfigError(f"a rocksmq topic has no option {min(action.options)!r}", fix="Leave options= out")
        if not isinstance(action, CreateTopic):
            return action
        seconds = retention_seconds(self.retention) if action.retention is None else action.retention
        size = self.retention_bytes if action.retention_bytes is None else action.retention_bytes
        return attrs.evolve(action, retention=seconds, retention_bytes=size)


def _contradiction(text: str, fix: str) -> ConfigError:
    return ConfigError(text, fix=fix, backend=BACKEND)


def from_url(url: Url) -> Mapping[str, Any]:
    """Read ``rocksmq:///absolute/path``."""
    if url.hosts or url.user:
        raise ConfigError(
            "a rocksmq URL has no host", fix="Write rocksmq:///absolute/path, with three slashes", backend=BACKEND
        )
    return {"path": url.path} if url.path else {}
