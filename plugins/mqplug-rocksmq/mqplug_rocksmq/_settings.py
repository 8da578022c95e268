"""What can be set when a store is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Url


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} is {value}, and must be greater than 0")


def _at_least(least: int) -> Callable[[Any, attrs.Attribute[Any], int], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: int) -> None:
        if value < least:
            raise ValueError(f"{attribute.name} is {value}, and must be at least {least}")

    return check


LEAST_DISK: Final = 64 << 20
LEAST_MEMORY: Final = 64 << 20
LARGEST: Final = 1 << 29  # bytes of one message: offsets in a page have 31 bits


@attrs.frozen(kw_only=True)
class RocksMQSettings:
    """``path`` is the store's directory, which is made where it is missing.

    ``sync`` says when a send is done: "always" when it is on disk; "interval" at once, with a sync every
    ``sync_interval`` seconds; "os" at once, and the operating system writes when it likes. The death of the process
    loses nothing in any of them; that of the host loses the end of the log in the last two.
    ``retention_interval`` is how often, in seconds, old messages are looked for. ``message_max_bytes`` is the largest
    message. ``disk_max_bytes`` is what the store may take on disk: the oldest messages of all topics go first. What
    RocksDB takes of the memory stays below ``memory_max_bytes``. ``create`` says whether a store is made where there is
    none, which is an error otherwise.
    """

    path: str = attrs.field(validator=attrs.validators.min_len(1), metadata={"address": True})
    sync: Literal["always", "interval", "os"] = "always"
    sync_interval: float = attrs.field(default=0.1, validator=_positive)
    retention_interval: float = attrs.field(default=60.0, validator=_positive)
    message_max_bytes: int = attrs.field(default=1_000_000, validator=[_positive, attrs.validators.le(LARGEST)])
    disk_max_bytes: int | None = attrs.field(default=None, validator=attrs.validators.optional(_at_least(LEAST_DISK)))
    memory_max_bytes: int = attrs.field(default=256 << 20, validator=_at_least(LEAST_MEMORY))
    create: bool = attrs.field(default=True, metadata={"creates": True})

    def __attrs_post_init__(self) -> None:
        if self.disk_max_bytes is not None and self.message_max_bytes > self.disk_max_bytes // 8:
            raise ConfigError(
                f"message_max_bytes is {self.message_max_bytes}, more than an eighth of disk_max_bytes",
                fix="Lower the one, or raise the other",
                backend="rocksmq",
            )

    @property
    def directory(self) -> Path:
        """The store's directory."""
        return Path(self.path).expanduser()


def from_url(url: Url) -> Mapping[str, Any]:
    """Read ``rocksmq:///absolute/path``."""
    if url.hosts or url.user:
        raise ConfigError(
            "a URL of rocksmq has no host", fix="Write rocksmq:///absolute/path, with three slashes", backend="rocksmq"
        )
    return {"path": url.path} if url.path else {}
