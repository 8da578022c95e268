"""All steps of programs, by families. Each program is drawn from the usual ones and from some of the other families."""

from __future__ import annotations

from typing import Final

from mqplug_testing.programs._steps.acking import Ack, AckThrough, Commit, Nack
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs._steps.burying import Bury, BuryAtHome, OpenRetrying
from mqplug_testing.programs._steps.clients import Outage, ReopenClient, Restart
from mqplug_testing.programs._steps.consuming import (
    AskLateAcks,
    AskPosition,
    AskStored,
    Close,
    OpenAutoMember,
    OpenExclusive,
    OpenMember,
    OpenReader,
    Pause,
    Receive,
    ReceiveMany,
    Resume,
)
from mqplug_testing.programs._steps.groups import (
    CopyGroup,
    DeleteGroup,
    DescribeGroup,
    Lag,
    ListGroups,
    Positions,
    ResetGroup,
)
from mqplug_testing.programs._steps.ids import CompareIds, ReadIds, SeekNowhere
from mqplug_testing.programs._steps.producing import OpenProducer, Send, SendMany, Submit
from mqplug_testing.programs._steps.queries import Advance, Bounds, Distance, Resolve, Watermarks, WatermarksOfAll
from mqplug_testing.programs._steps.seeking import Seek
from mqplug_testing.programs._steps.settings import AlterTopic, AlterWrongly, DescribeTopic
from mqplug_testing.programs._steps.sharing import (
    AckShared,
    AskLateShared,
    CloseSharer,
    CommitShared,
    DescribeSharers,
    NackShared,
    OpenSharer,
    ReceiveShared,
    SeekShared,
    SharedLag,
    SharedPositions,
    Wait,
)
from mqplug_testing.programs._steps.stages import (
    DiscardStaged,
    FinishStage,
    Ingest,
    IngestStranger,
    LeaveStage,
    OpenStage,
    WriteStage,
)
from mqplug_testing.programs._steps.topics import AddPartitions, CreateTopic, DeleteTopic, ListTopics, Trim
from mqplug_testing.programs._steps.transactions import Fence, Transact, TransactAcks

USUAL: Final[tuple[type[Step], ...]] = (
    CreateTopic, OpenProducer, Send, SendMany, OpenReader, OpenMember, Close, Receive, ReceiveMany, Ack, Commit, Seek,
    Watermarks, Resolve, Positions,
)  # fmt: skip
FAMILIES: Final[dict[str, tuple[type[Step], ...]]] = {
    "topics": (DeleteTopic, AddPartitions, ListTopics),
    "trims": (Trim, Bounds),
    "sending": (Submit,),
    "exclusive": (OpenExclusive,),
    "auto-acks": (OpenAutoMember,),
    "letters": (OpenRetrying, Bury, BuryAtHome, Nack),
    "nacks": (Nack, AckThrough, AskLateAcks),
    "pauses": (Pause, Resume),
    "queries": (Bounds, WatermarksOfAll, AskPosition, AskStored, Lag),
    "groups": (ResetGroup, CopyGroup, DeleteGroup, ListGroups, DescribeGroup, Lag),
    "settings": (DescribeTopic, AlterTopic, AlterWrongly),
    "clients": (ReopenClient, Restart, Outage),
    "ids": (CompareIds, ReadIds, SeekNowhere),
    "advances": (Advance, Distance),
    "transactions": (Transact, TransactAcks, Fence),
    "sharing": (
        OpenSharer,
        CloseSharer,
        ReceiveShared,
        AckShared,
        NackShared,
        CommitShared,
        AskLateShared,
        SeekShared,
        Wait,
        SharedPositions,
        SharedLag,
        DescribeSharers,
    ),
    "stages": (OpenStage, WriteStage, FinishStage, LeaveStage, DiscardStaged, Ingest, IngestStranger),
}
