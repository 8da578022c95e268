"""What a backend plugin implements and uses. Start with the hook specs, then the drivers, then the rules."""

from __future__ import annotations

from mqplug._batch import Batch, Columns, ListColumns
from mqplug._position import AtTime, Earliest, Last, Latest
from mqplug._produce.record import Headers
from mqplug._text import Numbers
from mqplug.spi import _hookspecs as hookspecs
from mqplug.spi._actions import (
    Action,
    AddPartitions,
    ConsumerOptions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    DescribeTopics,
    GroupInfo,
    GroupPosition,
    GroupStart,
    ListGroups,
    ListTopics,
    Mode,
    ProducerOptions,
    Settlement,
    SymbolicStart,
    TopicInfo,
    Trim,
)
from mqplug.spi._descriptor import API_VERSION, Capabilities, Descriptor, Url
from mqplug.spi._drivers import (
    Connection,
    ConsumerDriver,
    Listener,
    ProducerDriver,
    Run,
    Sending,
    SharedConsumerDriver,
)
from mqplug.spi._hookspecs import hookimpl
from mqplug.spi._leases import Lease, Leases, Upcoming
from mqplug.spi._positions import tidy
from mqplug.spi._proxy import (
    ColumnsProxy,
    ConnectionProxy,
    ConsumerProxy,
    ListenerProxy,
    ListenerRelay,
    ProducerProxy,
    SendingProxy,
)
from mqplug.spi._roster import Roster, Seat

__all__ = [
    "API_VERSION",
    "Action",
    "AddPartitions",
    "AtTime",
    "Batch",
    "Capabilities",
    "Columns",
    "ColumnsProxy",
    "Connection",
    "ConnectionProxy",
    "ConsumerDriver",
    "ConsumerOptions",
    "ConsumerProxy",
    "CreateTopic",
    "DeleteGroup",
    "DeleteTopic",
    "DescribeGroup",
    "DescribeTopic",
    "DescribeTopics",
    "Descriptor",
    "Earliest",
    "GroupInfo",
    "GroupPosition",
    "GroupStart",
    "Headers",
    "Last",
    "Latest",
    "Lease",
    "Leases",
    "ListColumns",
    "ListGroups",
    "ListTopics",
    "Listener",
    "ListenerProxy",
    "ListenerRelay",
    "Mode",
    "Numbers",
    "ProducerDriver",
    "ProducerOptions",
    "ProducerProxy",
    "Roster",
    "Run",
    "Seat",
    "Sending",
    "SendingProxy",
    "Settlement",
    "SharedConsumerDriver",
    "SymbolicStart",
    "TopicInfo",
    "Trim",
    "Upcoming",
    "Url",
    "hookimpl",
    "hookspecs",
    "tidy",
]
