"""The starts of steps: by the names of messages and positions, so that they can be printed and run again."""

from __future__ import annotations

import attrs

import mqplug
from mqplug import Position
from mqplug.spi import AtTime, Last
from mqplug_testing.model import Near
from mqplug_testing.model.logs import AnyStart
from mqplug_testing.programs.play import Play


@attrs.frozen
class Symbol:
    """``EARLIEST`` or ``LATEST``."""

    name: str

    def needs(self) -> list[str]:
        """Return the names that must have a value."""
        return []

    def code(self) -> str:
        """Return the start as Python."""
        return f"mqplug.{self.name}"

    def model(self, play: Play) -> AnyStart:
        """Return the start as the model knows it."""
        return mqplug.EARLIEST if self.name == "EARLIEST" else mqplug.LATEST


@attrs.frozen
class NearMessage:
    """Before or after a message."""

    message: str
    after: bool = False

    def needs(self) -> list[str]:
        return [self.message]

    def code(self) -> str:
        return f"mqplug.{'after' if self.after else 'before'}({self.message})"

    def model(self, play: Play) -> AnyStart:
        return Near(play.names[self.message], self.after)


@attrs.frozen
class Moment:
    """A time in milliseconds. ``message`` names the message whose time it is, or is near."""

    milliseconds: int

    def needs(self) -> list[str]:
        return []

    def code(self) -> str:
        return f"mqplug.at_time({self.milliseconds})"

    def model(self, play: Play) -> AnyStart:
        return AtTime(self.milliseconds)


@attrs.frozen
class LastOnes:
    """The last messages of each partition."""

    count: int

    def needs(self) -> list[str]:
        return []

    def code(self) -> str:
        return f"mqplug.last({self.count})"

    def model(self, play: Play) -> AnyStart:
        return Last(self.count)


@attrs.frozen
class Place:
    """A position that ``resolve`` returned, or one that lies further on by this much of its first coordinate."""

    name: str
    partition: int
    further: int = 0

    def needs(self) -> list[str]:
        return [f"{self.name}[{self.partition}]"]

    def code(self) -> str:
        place = f"{self.name}[{self.partition}]"
        if not self.further:
            return place
        numbers = f"({place}.coordinates[0] + {self.further}, *{place}.coordinates[1:])"
        return f"mqplug.Position({place}.log, {numbers})"

    def model(self, play: Play) -> AnyStart:
        place: Position = play.names[self.name][self.partition]
        first, *rest = place.coordinates
        return Position(place.log, (first + self.further, *rest)) if self.further else place


AnyPlace = Symbol | NearMessage | Moment | LastOnes | Place
