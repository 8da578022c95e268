"""The seam between the core and its plugins: everything that a backend plugin implements and uses.

Read in this order:

1. ``mqplug.spi.hookspecs`` has the hooks: two screens that say what a backend is asked for. ``hookimpl`` marks an
   implementation.
2. ``Descriptor``, ``Capabilities`` and ``Url`` are what ``mqplug_describe`` returns and reads; ``Address``,
   ``retention_seconds`` and ``API_VERSION`` help with settings.
3. ``Connection``, ``ProducerDriver`` and ``ConsumerDriver`` are the base classes of the drivers that hooks return,
   ``TransactionDriver`` and ``StageDriver`` those of backends that declare ``transactions`` and ``staged_ingest``. What
   a backend cannot do keeps its default. A producer settles each ``Sending`` or ``Run``; a consumer returns each
   ``Batch`` of ``Columns`` (``ListColumns`` makes them from lists; ``ColumnsWithArrow`` also give Arrow arrays), and
   calls its ``Listener``.
4. ``ProducerOptions`` and ``ConsumerOptions``, the actions and the data in them, cross the seam.
5. ``Deadline``, ``Bell`` and ``weakly`` are tools; so are ``mqplug.spi.groups``, for backends that keep groups
   themselves, ``mqplug.spi.tokens``, for settings that name a provider of tokens, ``mqplug.spi.compiled``, for compiled
   parts, and ``mqplug.spi.proxies``, for extensions.

The driver rules (docs/driver-rules.md) say who may call what, and when. ``mqplug.memory`` is the reference.

Aliases, which have no help of their own:

``Action``
    What ``mqplug_administer`` is asked to do: any of ``CreateTopic``, ``AlterTopic``, ``DeleteTopic``,
    ``AddPartitions``, ``ListTopics``, ``DescribeTopic``, ``DescribeTopics``, ``DescribeGroup``,
    ``DescribeGroupMembers``, ``ListGroups``, ``DeleteGroup``, ``Trim``, ``Ingest``, ``DiscardStaged`` and
    ``DescribeCluster``. Each says what the hook answers. Match on the class; raise ``unsupported(action)`` for others.
``GroupStart``
    Where a consumer begins, ``ConsumerOptions.start``: a ``SymbolicStart``, or a mapping with a position for each log.
``SymbolicStart``
    A start that only the driver can resolve: ``Earliest``, ``Latest``, ``AtTime`` or ``Last``.
``Mode``
    How members share a topic, ``ConsumerOptions.mode``: "ordered" (one member for each partition at a time),
    "exclusive" (one member in all), "shared" (message by message) or "key_shared" (the same, but each key with
    one member). ``SHARED_MODES`` are the last two.
``Headers``
    The headers of a message: pairs of a name and bytes or None, in order; a name may come twice.
``Numbers``
    Coordinates or a detail: a tuple of integers of any size.
``Retention``
    How long messages are kept, as callers write it: seconds, 60 or more, or a timedelta; see ``retention_seconds``.
"""

from __future__ import annotations

from mqplug._base.bell import Bell
from mqplug._base.closing import weakly
from mqplug._base.deadline import Deadline
from mqplug._model.batch import Batch, Columns, ColumnsWithArrow, ListColumns
from mqplug._model.checks import Retention, retention_seconds
from mqplug._model.id_text import Numbers
from mqplug._model.log import GroupDescription, GroupMember
from mqplug._model.message import Headers
from mqplug._model.outcome import UnfinishedSend
from mqplug._model.position import AtTime, Earliest, Last, Latest
from mqplug.spi import _hookspecs as hookspecs
from mqplug.spi._actions import (
    SHARED_MODES,
    Action,
    AddPartitions,
    AlterTopic,
    ConsumerOptions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeCluster,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    DiscardStaged,
    GroupInfo,
    GroupMove,
    GroupPosition,
    GroupStart,
    Ingest,
    Ingested,
    ListGroups,
    ListTopics,
    Mode,
    ProducerOptions,
    Settlement,
    Staged,
    SymbolicStart,
    TopicInfo,
    TransactionMark,
    TransactionOptions,
    Trim,
    action_name,
    unsupported,
)
from mqplug.spi._descriptor import API_VERSION, Address, Capabilities, Descriptor, Url
from mqplug.spi._drivers import (
    Connection,
    ConsumerDriver,
    Listener,
    Offer,
    ProducerDriver,
    Run,
    Sending,
    StageDriver,
    TransactionDriver,
)
from mqplug.spi._hookspecs import hookimpl

__all__ = [
    "API_VERSION",
    "SHARED_MODES",
    "Action",
    "AddPartitions",
    "Address",
    "AlterTopic",
    "AtTime",
    "Batch",
    "Bell",
    "Capabilities",
    "Columns",
    "ColumnsWithArrow",
    "Connection",
    "ConsumerDriver",
    "ConsumerOptions",
    "CreateTopic",
    "Deadline",
    "DeleteGroup",
    "DeleteTopic",
    "DescribeCluster",
    "DescribeGroup",
    "DescribeGroupMembers",
    "DescribeTopic",
    "DescribeTopics",
    "Descriptor",
    "DiscardStaged",
    "Earliest",
    "GroupDescription",
    "GroupInfo",
    "GroupMember",
    "GroupMove",
    "GroupPosition",
    "GroupStart",
    "Headers",
    "Ingest",
    "Ingested",
    "Last",
    "Latest",
    "ListColumns",
    "ListGroups",
    "ListTopics",
    "Listener",
    "Mode",
    "Numbers",
    "Offer",
    "ProducerDriver",
    "ProducerOptions",
    "Retention",
    "Run",
    "Sending",
    "Settlement",
    "StageDriver",
    "Staged",
    "SymbolicStart",
    "TopicInfo",
    "TransactionDriver",
    "TransactionMark",
    "TransactionOptions",
    "Trim",
    "UnfinishedSend",
    "Url",
    "action_name",
    "hookimpl",
    "hookspecs",
    "retention_seconds",
    "unsupported",
    "weakly",
]
