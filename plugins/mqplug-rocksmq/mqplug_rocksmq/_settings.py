"""What can be set when a store is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Url


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} is {value}, and must be greater than 0")


LARGEST: Final = 1 << 29  # bytes of one message: offsets in a page have 31 bits


@attrs.frozen(kw_only=True)
class RocksMQSettings:
    """``path`` is the store's directory, which is made where it is missing.

    ``sync`` says when a send is done: "always" when it is on disk; "interval" at once, with a sync every
    ``sync_interval`` seconds; "os" at once, and the operating system writes when it likes. The death of the process
    loses nothing in any of them; that of the host loses the end of the log in the last two.
    ``retention_interval`` is how often, in seconds, old messages are looked for. ``message_max_bytes`` is the largest
    message.
    """

    path: str = attrs.field(validator=attrs.validators.min_len(1), metadata={"address": True})
    sync: Literal["always", "interval", "os"] = "always"
    sync_interval: float = attrs.field(default=0.1, validator=_positive)
    retention_interval: float = attrs.field(default=60.0, validator=_positive)
    message_max_bytes: int = attrs.field(default=1_000_000, validator=[_positive, attrs.validators.le(LARGEST)])

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
