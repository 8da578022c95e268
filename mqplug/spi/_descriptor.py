"""What a backend says of itself: its descriptor and its capabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

API_VERSION = 1


@attrs.frozen(kw_only=True)
class Capabilities:
    """What a backend can do. The names are those of the contract catalogue.

    Operations have a call, which raises ``Unsupported`` where the flag is False. Properties are promises.
    A descriptor says what the backend does natively; ``client.capabilities`` has in addition what the core provides.
    """

    # operations
    auto_create_topics: bool = False
    delete_topic: bool = False
    list_topics: bool = False
    add_partitions: bool = False
    groups: bool = False
    durable_groups: bool = False
    ordered: bool = False
    exclusive: bool = False
    shared: bool = False
    key_shared: bool = False
    nack: bool = False
    dead_letter: bool = False
    delayed: bool = False
    seek_time: bool = False
    transactions: bool = False
    fencing: bool = False
    chunking: bool = False
    compression: bool = False
    compaction: bool = False
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


@attrs.frozen
class Url:
    """The parts of ``scheme://user:password@host:port,host:port/path?key=value``."""

    scheme: str
    hosts: tuple[str, ...]
    path: str
    user: str | None
    password: str | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Descriptor:
    """What ``mqplug_describe`` returns.

    ``settings`` is an attrs class; unknown keys and wrong types are refused before the driver sees them. A field with
    ``repr=False`` is a secret. One with ``metadata={"address": True}`` says where the backend is: a section of the
    configuration that has it counts as configured; where none is marked, those without a default do.
    A boolean one with ``metadata={"creates": True}`` says whether connecting makes what is not there; commands that
    only look leave it False.
    ``from_url`` turns the parts of a URL into settings; the query's keys are added to what it returns.
    ``partitioners`` names those partitioners that the driver follows itself, exactly as the core would.
    """

    name: str
    settings: type[Any]
    capabilities: Capabilities
    from_url: Callable[[Url], Mapping[str, Any]]
    api_version: int = API_VERSION
    partitioners: frozenset[str] = frozenset()
