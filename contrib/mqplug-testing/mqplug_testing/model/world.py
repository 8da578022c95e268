"""The whole state that a program has made, as far as the rules determine it."""

from __future__ import annotations

from mqplug.spi import Capabilities
from mqplug_testing.model.consumers import Consumers
from mqplug_testing.model.descriptions import Descriptions
from mqplug_testing.model.groups import Groups
from mqplug_testing.model.letters import DeadLetters
from mqplug_testing.model.logs import LogTimes
from mqplug_testing.model.settings import TopicSettings
from mqplug_testing.model.sharing import Sharing
from mqplug_testing.model.stages import Stages
from mqplug_testing.model.topics import Topics
from mqplug_testing.model.transactions import Transactions


class World:
    """The topics, groups and consumers of one program. Names are those of the program."""

    def __init__(self, able: Capabilities, log_times: LogTimes) -> None:
        self.able = able
        self.topics = Topics(able, log_times)
        self.groups = Groups(self.topics)
        self.consumers = Consumers(self.topics, self.groups)
        self.letters = DeadLetters(self.topics, self.consumers)
        self.descriptions = Descriptions(self.topics, self.groups, self.consumers)
        self.settings = TopicSettings(self.topics)
        self.sharing = Sharing(self.topics)
        self.stages = Stages(self.topics)
        self.transactions = Transactions(self.topics)
