"""What can be set when a store is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Url, retention_seconds

BACKEND: Final = "rocksmq"
PLUGIN_VERSION: Final = "0.1.0"
MIN_DISK_BYTES: Final = 64 << 20
MIN_MEMORY_BYTES: Final = 64 << 20
MAX_DISK_BYTES: Final = 1 << 60
MAX_MEMORY_BYTES: Final = 1 << 40
MIN_GUESTS_BYTES: Final = 16 << 20
DEFAULT_GUESTS_BYTES: Final = 256 << 20
DEFAULT_GUEST_CONNECTIONS: Final = 2000
MAX_GUEST_CONNECTIONS: Final = 1 << 14
DEFAULT_SYNC_INTERVAL_S: Final = 0.1
MAX_SECONDS: Final = 1_000_000.0  # seconds
MAX_MESSAGE_BYTES: Final = 1 << 29  # bytes of one message: offsets in a page have 31 bits

Compression = Literal["lz4", "zstd", "none"]
Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _seconds(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value <= MAX_SECONDS:
        raise ValueError(f"{attribute.name} is {value}, and must be greater than 0, and at most {MAX_SECONDS:g}")


def _between(least: int, most: int) -> Validator:
    def check(_: object, attribute: attrs.Attribute[Any], value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} is {value}, and must be from {least} to {most}")

    return check


def _retention(_: object, attribute: attrs.Attribute[Any], value: float | timedelta | None) -> None:
    try:
        retention_seconds(value)
    except ValueError as error:
        raise ValueError(f"{error}; in a file or a URL '{value:g}d' or '{value:g}s'") from None


def _directory(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not value or "\0" in value:
        raise ValueError(f"{attribute.name} is empty, or has a zero byte in it")
    try:
        Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"{attribute.name} begins with {Path(value).parts[0]}, and there is no such user") from None


@attrs.frozen(kw_only=True)
class RocksMQSettings:
    """``path`` is the store's directory, which is made where it is missing.

    ``sync`` says when a send is done: "always" when it is on disk; "interval" at once, with a sync every
    ``sync_interval`` seconds (0.1; with the others it is an error); "os" at once, and the operating system writes when
    it likes. The death of the process loses nothing in any of them; that of the host loses the end of the log in the
    last two.
    ``retention`` is how long topics that are made here keep their messages, unless they say otherwise: a timedelta, or
    seconds, 60 or more; seven days. ``retention_bytes`` is how much of each partition they keep; no limit.
    ``retention_interval`` is how often, in seconds, old messages are looked for. ``message_max_bytes`` is the largest
    message. ``disk_max_bytes`` is what the store may take on disk: the oldest messages of all topics go first. What
    RocksDB takes of the memory stays below ``memory_max_bytes``. ``compression`` is that of the tables on disk.
    ``session_timeout`` is how many seconds a member of a group in another process may stand still until others get what
    it holds. ``ballast_max_bytes`` bounds the room on disk that a store holds for when the disk is full: as much as it
    takes itself, up to half of ``memory_max_bytes``, or an eighth of ``disk_max_bytes``; 0 is none.
    ``guests_max_bytes`` bounds what the requests and answers of other processes take of the owner's memory while they
    are under way, and ``guest_connections_max`` how many connections those have: one for each producer, each consumer,
    and each call under way. ``create`` says whether a store is made where there is none, which is an error otherwise.
    """

    path: str = attrs.field(validator=_directory, metadata={"address": True})
    sync: Literal["always", "interval", "os"] = "always"
    sync_interval: float | None = attrs.field(default=None, validator=attrs.validators.optional(_seconds))
    retention: float | timedelta | None = attrs.field(default=None, validator=_retention)
    retention_bytes: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_between(1, MAX_DISK_BYTES))
    )
    retention_interval: float = attrs.field(default=60.0, validator=_seconds)
    message_max_bytes: int = attrs.field(default=1_000_000, validator=_between(1, MAX_MESSAGE_BYTES))
    disk_max_bytes: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_between(MIN_DISK_BYTES, MAX_DISK_BYTES))
    )
    memory_max_bytes: int = attrs.field(default=256 << 20, validator=_between(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES))
    compression: Compression = "lz4"
    session_timeout: float = attrs.field(default=30.0, validator=_seconds)
    ballast_max_bytes: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_between(0, MAX_DISK_BYTES))
    )
    guests_max_bytes: int = attrs.field(
        default=DEFAULT_GUESTS_BYTES, validator=_between(MIN_GUESTS_BYTES, MAX_MEMORY_BYTES)
    )
    guest_connections_max: int = attrs.field(
        default=DEFAULT_GUEST_CONNECTIONS, validator=_between(1, MAX_GUEST_CONNECTIONS)
    )
    create: bool = attrs.field(default=True, metadata={"creates": True})

    def __attrs_post_init__(self) -> None:
        if self.sync_interval is not None and self.sync != "interval":
            text = f"sync_interval is given, but sync is {self.sync}"
            raise _contradiction(text, "Say sync=interval, or leave sync_interval out")
        for name in ("memory_max_bytes", "disk_max_bytes"):
            most = getattr(self, name)
            if most is not None and self.message_max_bytes > most // 8:
                text = f"message_max_bytes is {self.message_max_bytes}, more than an eighth of {name}"
                raise _contradiction(text, "Lower the one, or raise the other")

    @property
    def interval(self) -> float:
        """Seconds between two syncs of "interval"."""
        return DEFAULT_SYNC_INTERVAL_S if self.sync_interval is None else self.sync_interval

    @property
    def directory(self) -> Path:
        """The store's directory."""
        return Path(self.path).expanduser()


def _contradiction(text: str, fix: str) -> ConfigError:
    return ConfigError(text, fix=fix, backend="rocksmq")


def from_url(url: Url) -> Mapping[str, Any]:
    """Read ``rocksmq:///absolute/path``."""
    if url.hosts or url.user:
        raise ConfigError(
            "a URL of rocksmq has no host", fix="Write rocksmq:///absolute/path, with three slashes", backend="rocksmq"
        )
    return {"path": url.path} if url.path else {}
