"""The data that crosses the seam: topic and group actions, group positions, options of producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from mqplug._model.errors import Unsupported
from mqplug._model.id_text import Numbers
from mqplug._model.log import Log
from mqplug._model.position import AtTime, Bounds, Earliest, Last, Latest, Position

SymbolicStart = Earliest | Latest | AtTime | Last
"""The starts that only a driver can resolve. The core resolves the others."""

GroupStart = SymbolicStart | Mapping[Log, Position]


@attrs.frozen
class TopicInfo:
    """A topic: its name, the log of each partition in order, and its retention, if the backend reports it.

    ``options`` are the backend's settings of the topic, without the retention and without defaults, in the form that
    ``CreateTopic`` and ``AlterTopic`` take.
    """

    name: str
    logs: tuple[Log, ...]
    retention: float | None = None  # seconds
    retention_bytes: int | None = None  # of each partition
    options: Mapping[str, Any] = attrs.field(factory=dict, hash=False)


@attrs.frozen
class Broker:
    """A server of a backend: its name and its address."""

    name: str
    address: str


@attrs.frozen
class ClusterInfo:
    """The name of a backend's cluster, and its running brokers."""

    name: str
    brokers: tuple[Broker, ...]


@attrs.frozen
class GroupInfo:
    """A group: its name, and its current number of members, or None if the backend does not report it."""

    name: str
    members: int | None = None


@attrs.frozen
class GroupPosition:
    """A group's position in a log: everything before ``position`` is acked, and so are the ``acked`` ranges after it.

    A range is (first, last), both coordinates of acked messages. Ranges ascend and do not touch.
    """

    position: Position
    acked: tuple[tuple[Numbers, Numbers], ...] = ()


@attrs.frozen
class CreateTopic:
    """Create a topic, and return its ``TopicInfo``. Raise ``TopicExists`` if it exists.

    ``retention`` is how long its messages are kept, acked or not, in seconds: a float that may be below a minute or
    ``math.inf`` (forever); None stands for the backend's default. ``retention_bytes`` is how much of each partition is
    kept; None stands for the backend's default. Both are None if ``retention`` is not declared. ``options`` are the
    backend's own; a driver refuses unknown ones.
    """

    topic: str
    partitions: int = 1
    retention: float | None = None  # seconds; None: the backend's default
    options: Mapping[str, Any] = attrs.field(factory=dict)
    retention_bytes: int | None = None  # of each partition; None: the backend's default


@attrs.frozen
class AlterTopic:
    """Change settings of a topic, which have the meaning that they have in ``CreateTopic``.

    None leaves a setting unchanged, and so does a missing option; at least one is given. A driver refuses unknown
    options, before any I/O if possible, and then changes nothing. Return the new ``TopicInfo`` once the change survives
    a restart and every client's ``DescribeTopic`` shows it. Raise ``TopicNotFound`` if the topic is missing.
    """

    topic: str
    retention: float | None = None  # seconds; None: unchanged
    options: Mapping[str, Any] = attrs.field(factory=dict)
    retention_bytes: int | None = None  # of each partition; None: unchanged


@attrs.frozen
class DeleteTopic:
    """Delete a topic with its messages, and return True. Raise ``TopicNotFound`` if it is missing."""

    topic: str


@attrs.frozen
class AddPartitions:
    """Grow a topic to ``partitions`` in all, which is more than it has. Return the new ``TopicInfo``."""

    topic: str
    partitions: int


@attrs.frozen
class ListTopics:
    """Return the names of all topics, except the backend's own.

    A consumer passes its ``pattern``, and takes the names that match it fully. If a backend has topics that it does not
    list otherwise, it returns those that the pattern names, in the pattern's spelling. Other backends may ignore the
    pattern.
    """

    pattern: str | None = None


@attrs.frozen
class DescribeTopic:
    """Return the ``TopicInfo``. Raise ``TopicNotFound`` if the topic is missing."""

    topic: str


@attrs.frozen
class DescribeTopics:
    """Return the ``TopicInfo`` of each, in this order. Raise ``TopicNotFound`` if one is missing.

    For backends that describe many in one round trip. If a driver raises ``Unsupported``, the core describes one topic
    at a time.
    """

    topics: tuple[str, ...]


@attrs.frozen
class DescribeGroup:
    """Return a mapping of log to ``GroupPosition``, for the logs where the group has one."""

    group: str
    logs: tuple[Log, ...]


@attrs.frozen
class DescribeGroupMembers:
    """Return the ``GroupDescription``. Raise ``GroupNotFound`` if the group has neither a position nor a member.

    If a driver raises ``Unsupported``, the core looks for the group's positions on all topics, with ``ListGroups``,
    ``ListTopics`` and ``DescribeGroup``; the members are then None, or empty if ``ListGroups`` counts 0.
    """

    group: str


@attrs.frozen
class ListGroups:
    """Return a ``GroupInfo`` for each group that has a position on this topic, or on any."""

    topic: str | None = None


@attrs.frozen
class DeleteGroup:
    """Forget a group's positions everywhere, and return True.

    Raise ``GroupNotFound`` if there are none, and ``ConsumerBusy`` if the group has members.
    """

    group: str


@attrs.frozen
class Trim:
    """Remove all messages before the positions, one for each log. Return True."""

    before: Mapping[Log, Position]


@attrs.frozen
class Staged:
    """The messages of a finished stage, for ``ingest``: plain data that can be pickled and sent to another process.

    ``size`` is in bytes. ``detail`` is the backend's own.
    """

    backend: str
    cluster: str
    topic: str
    messages: int
    size: int
    detail: str = attrs.field(repr=False)


@attrs.frozen
class Ingested:
    """The outcome of an ``ingest``: the number of messages, and the first and the last id in each log.

    ``repeated``: they were taken in before, and nothing was done. ``placed`` then has their ids, if they are still
    known.
    """

    messages: int
    placed: Mapping[Log, Bounds]
    repeated: bool = False


@attrs.frozen
class Ingest:
    """Take in staged messages, all or nothing, once for each number of a writer. Return ``Ingested``.

    A number up to this writer's last one takes in nothing, and discards the staged messages.
    """

    staged: tuple[Staged, ...]
    writer: str
    number: int


@attrs.frozen
class DiscardStaged:
    """Remove unwanted staged messages, and skip those that are already gone. Return True."""

    staged: tuple[Staged, ...]


@attrs.frozen
class DescribeCluster:
    """Return the ``ClusterInfo``. An optional action, for backends with ``multi_node``."""


Action = (
    CreateTopic | AlterTopic | DeleteTopic | AddPartitions | ListTopics | DescribeTopic | DescribeTopics
    | DescribeGroup | DescribeGroupMembers | ListGroups | DeleteGroup | Trim | Ingest | DiscardStaged
    | DescribeCluster
)  # fmt: skip

_NEEDS: Final[Mapping[type[Any], str]] = {
    AlterTopic: "alter_topic",
    DeleteTopic: "delete_topic",
    AddPartitions: "add_partitions",
    ListTopics: "list_topics",
    DescribeGroup: "groups",
    DescribeGroupMembers: "groups",
    ListGroups: "groups",
    DeleteGroup: "durable_groups",
    Trim: "trim",
    Ingest: "staged_ingest",
    DiscardStaged: "staged_ingest",
    DescribeCluster: "multi_node",
}
"""The capability that each action needs. Every backend can create and describe topics."""


def unsupported(action: Action) -> Unsupported:
    """Return a driver's error for an unknown action. It names the capability that the action needs."""
    name = action_name(type(action))
    return Unsupported(_NEEDS.get(type(action), name), f"{name!r} is not supported here")


def action_name(kind: type[Any]) -> str:
    """Return the name of an action: ``create_topic`` for ``CreateTopic``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__)[1:]


Mode = Literal["ordered", "exclusive", "shared", "key_shared"]

SHARED_MODES: Final[frozenset[Mode]] = frozenset({"shared", "key_shared"})
"""The modes in which the members of a group share each log, message by message."""


@attrs.frozen
class Settlement:
    """The outcomes of a member's messages in a shared group: ``acked``, or ``returned`` with a delay in seconds."""

    acked: Sequence[Numbers] = ()
    returned: Sequence[tuple[Numbers, float]] = ()


@attrs.frozen(kw_only=True)
class ProducerOptions:
    """The options with which a producer is opened."""

    partitioner: str = "murmur2"
    queue_bytes: int = 64 * 1024 * 1024


@attrs.frozen(kw_only=True)
class ConsumerOptions:
    """The options with which a consumer is opened.

    Without a ``group``, ``start`` is a mapping with a position for each log, and no other option is read.

    With a ``group``, ``start`` applies to those ``logs`` where the group has no position yet: it is resolved and stored
    as the group's position before the hook returns. Where the group has a position, it is ignored. It is a symbolic
    start, which the driver resolves for each such log, or a mapping with a position for every one of ``logs``, of which
    the driver takes the ones that it needs. With ``must_exist`` a group without any position raises ``GroupNotFound``.

    In the modes ``shared`` and ``key_shared`` all members read all logs, and each message is leased to one member until
    it is settled. After ``max_processing`` seconds it goes to another member, unless it was acked by then. In the other
    modes, the core enforces that time.
    """

    logs: Sequence[Log]
    group: str | None
    start: GroupStart
    must_exist: bool = False
    mode: Mode = "ordered"
    max_processing: float | None = None
    prefetch_bytes: int = 64 * 1024 * 1024

    @property
    def shares(self) -> bool:
        """Whether the consumer shares each log with the other members of its group, message by message."""
        return self.group is not None and self.mode in SHARED_MODES


@attrs.frozen(kw_only=True)
class TransactionOptions:
    """The options with which a transaction name is taken over.

    ``topic`` is the default topic of the first step, if it has one.
    """

    name: str
    topic: str | None = None
    queue_bytes: int = 64 * 1024 * 1024


MAX_NOTE_BYTES: Final = 1000
"""The size of a mark's note, in UTF-8."""


@attrs.frozen
class TransactionMark:
    """The mark of a step: its number, which is stored for the transaction's name and a topic. Numbers only grow.

    ``note`` is a text of up to ``MAX_NOTE_BYTES`` that is stored with it.
    """

    topic: str
    number: int
    note: str = ""


@attrs.frozen
class GroupMove:
    """The positions of a group that a transaction stores.

    ``member`` is the current result of ``membership`` of the consumer's driver, in this process.
    """

    group: str
    positions: Mapping[Log, GroupPosition]
    member: Any = None
