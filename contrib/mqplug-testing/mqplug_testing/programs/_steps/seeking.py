"""The step that seeks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs

from mqplug_testing.model.topics import named_log
from mqplug_testing.programs._steps.base import OfConsumer, missing
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play
from mqplug_testing.programs.starts import AnyPlace, NearMessage, Place


@attrs.frozen
class Seek(OfConsumer):
    """Seek in all partitions, in the one of an id or a position, or in a chosen one."""

    to: AnyPlace
    partition: int | None = None
    lenient: bool = False

    weight = 3

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer()
        if consumer is None or not consumer.readings:
            return None
        topic = choose.luck.choice(consumer.topics)
        held = sorted(each.partition for each in consumer.readings)
        partition = choose.luck.choice(held) if choose.likely(0.4) and len(consumer.topics) == 1 else None
        return cls(consumer.name, choose.start(topic), partition, choose.likely(0.4))

    def needs(self) -> Sequence[str]:
        return [self.consumer, *self.to.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play):
            return False
        start = self.to.model(play)
        model = play.world.consumers.open[self.consumer]
        named = named_log(start)
        readings = [each for log, each in model.readings.items() if named in {None, log}]
        clear = all(len(each.log.places(start, lenient=self.lenient).points) < 2 for each in readings)
        return bool(model.readings) and (model.group is None or clear)

    def perform(self, play: Play) -> None:
        partition = None if isinstance(self.to, NearMessage | Place) else self.partition
        outcome = self.call(play, f"seek({seek_arguments(self.to, partition)}{missing(self.lenient)})")
        play.world.consumers.sought(self.consumer, self.to.model(play), partition, self.lenient, outcome)


def seek_arguments(to: AnyPlace, partition: int | None) -> str:
    """Return the place and the partition as arguments of ``seek``."""
    if isinstance(to, NearMessage):
        return f"{to.message}, inclusive=False" if to.after else to.message
    return to.code() if partition is None else f"{to.code()}, partition={partition}"
