"""A backend's description of itself: its descriptor, its capabilities and the parts of its URL."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import attrs

API_VERSION = 1


@attrs.frozen(kw_only=True)
class Capabilities:
    """The abilities of a backend, under the names of the contract catalogue.

    Operations have a call, which raises ``Unsupported`` if the flag is False. Properties are promises. A descriptor
    has the backend's own capabilities; ``client.capabilities`` adds those that the core provides.
    """

    # operations
    auto_create_topics: bool = False
    alter_topic: bool = False
    delete_topic: bool = False
    list_topics: bool = False
    topic_patterns: bool = False
    add_partitions: bool = False
    groups: bool = False
    durable_groups: bool = False
    ordered: bool = False
    exclusive: bool = False
    shared: bool = False
    key_shared: bool = False
    nack: bool = False
    dead_letter: bool = False
    seek_time: bool = False
    advance: bool = False
    transactions: bool = False
    compression: bool = False
    trim: bool = False
    retention: bool = False
    pause_resume: bool = False
    null_payload: bool = False
    headers: bool = False
    keys: bool = False
    partitions: bool = False
    timestamps_producer: bool = False
    auth: bool = False
    exclusive_open: bool = False
    staged_ingest: bool = False
    # properties
    individual_ack: bool = False
    ack_granularity: Literal["message", "entry"] = "message"
    cumulative_ack: bool = False
    ack_timeout: bool = False
    auto_commit: bool = False
    commit: bool = False
    assignment_events: bool = False
    durable_delivery_count: bool = False
    header_duplicates: bool = False
    idempotent_producer: bool = False
    batch_index: bool = False
    time_index: bool = False
    count_exact: bool = False
    multi_client: bool = False
    multi_node: bool = False
    multi_process: bool = False
    persistent: bool = False
    exactly_once: bool = False
    # numbers
    message_max_bytes: int = 1_000_000
    headers_max: int = 1_000
    header_max_bytes: int = 64_000
    topic_name_max: int = 249
    batch_max_messages: int = 10_000
    batch_max_bytes: int = 64 * 1024 * 1024
    partitions_max: int = 10_000
    acked_ranges_max: int = 1_000_000


_HOST: Final = re.compile(r"[^\s/?#@:,\[\]<>\"'\\%]+")
_PORT: Final = re.compile(r":0*([1-9]\d{0,4})", re.ASCII)
_PORT_MAX: Final = 65535


class Address(NamedTuple):
    """The address of a server: a host (a name, or an IP address without brackets), and a port or None."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the parts of ``host``, ``host:port`` or ``[::1]:port``. Raises ``ValueError`` for anything else.

        The error shows nothing of the text, which may be part of a password if the URL is malformed.
        """
        host, bracket, rest = text.removeprefix("[").partition("]") if text.startswith("[") else ("", "", "")
        if bracket:
            return cls(_ipv6(unquote(host)), _port(rest))
        if text.count(":") > 1:
            raise ValueError("a host has more than one ':'; put an IPv6 address into brackets")
        host, colon, port = text.partition(":")
        if not host:
            raise ValueError("a host is missing")
        if not _HOST.fullmatch(host) or not host.isprintable():
            raise ValueError("a host contains a character that is not allowed")
        return cls(host, _port(colon + port))

    def at(self, default_port: int) -> str:
        """Return the address as clients write it, with this port by default: ``host:port``, ``[::1]:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{default_port if self.port is None else self.port}"


def _ipv6(text: str) -> str:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError("the text in brackets is not an IPv6 address") from None
    return text


def _port(text: str) -> int | None:
    """Return the port in ``:port``; None for an empty text."""
    if not text:
        return None
    found = _PORT.fullmatch(text)
    if found is None or int(found[1]) > _PORT_MAX:
        raise ValueError(f"a port must be a whole number from 1 to {_PORT_MAX}")
    return int(found[1])


@attrs.frozen
class Url:
    """The parts of ``scheme://user:password@host:port,[::1]:port/path?key=value``.

    Each of ``hosts`` is an ``Address``, a pair of host and port. The port is None if the URL has none; an IPv6 address
    has no brackets. The core has checked that ports are from 1 to 65535 and that no host is empty.
    """

    scheme: str
    hosts: tuple[Address, ...]
    path: str
    user: str | None
    password: str | None = attrs.field(repr=False)

    @property
    def backend(self) -> str:
        """The backend that the scheme names: ``pulsar`` for ``pulsar+ssl://``."""
        return self.scheme.partition("+")[0]


@attrs.frozen(kw_only=True)
class Descriptor:
    """A backend's name, settings and capabilities, as ``mqplug_describe`` returns them.

    ``settings`` is an attrs class; the core refuses unknown keys and wrong types before the driver sees them. A field
    with ``repr=False`` is a secret. One with ``metadata={"address": True}`` is the backend's address: a section of the
    configuration that has it counts as configured; if no field is marked, fields without a default count.
    A boolean field with ``metadata={"creates": True}`` controls whether connecting creates a missing store; commands
    that only read set it to False.

    ``from_url`` converts the parts of a URL to settings, without I/O; the query's keys are added to its result.
    Every error that it raises becomes a ``ConfigError`` that names the URL without its secrets.

    ``schemes`` are the URL schemes that it takes in addition to the backend's name: each is that name, a ``+`` and a
    word. ``partitioners`` names the partitioners that the driver applies itself, exactly as the core would.
    """

    name: str
    settings: type[Any]
    capabilities: Capabilities
    from_url: Callable[[Url], Mapping[str, Any]]
    api_version: int = API_VERSION
    partitioners: frozenset[str] = frozenset()
    schemes: frozenset[str] = frozenset()
