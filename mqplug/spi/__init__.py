"""What a backend plugin implements and uses. Start with the hook specs, then the drivers, then the rules."""

from __future__ import annotations

from mqplug._batch import Batch, Columns, ListColumns
from mqplug._position import AtTime, Earliest, Last, Latest
from mqplug._record import CheckedRecord, Headers
from mqplug._text import Numbers
from mqplug.spi import _hookspecs as hookspecs
from mqplug.spi._actions import (
    Action,
    ConsumerOptions,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    GroupPosition,
    GroupStart,
    ListTopics,
    ProducerOptions,
    SymbolicStart,
    TopicInfo,
    Trim,
)
from mqplug.spi._descriptor import API_VERSION, Capabilities, Descriptor, Url
from mqplug.spi._drivers import Connection, ConsumerDriver, Listener, ProducerDriver, Sending
from mqplug.spi._hookspecs import hookimpl
from mqplug.spi._roster import Roster, Seat

__all__ = [
    "API_VERSION",
    "Action",
    "AtTime",
    "Batch",
    "Capabilities",
    "CheckedRecord",
    "Columns",
    "Connection",
    "ConsumerDriver",
    "ConsumerOptions",
    "CreateTopic",
    "DeleteTopic",
    "DescribeGroup",
    "DescribeTopic",
    "Descriptor",
    "Earliest",
    "GroupPosition",
    "GroupStart",
    "Headers",
    "Last",
    "Latest",
    "ListColumns",
    "ListTopics",
    "Listener",
    "Numbers",
    "ProducerDriver",
    "ProducerOptions",
    "Roster",
    "Seat",
    "Sending",
    "SymbolicStart",
    "TopicInfo",
    "Trim",
    "Url",
    "hookimpl",
    "hookspecs",
]
