"""A history: all that happened in a run, and what the backend promises. It can be kept in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs
from cattrs import Converter
from cattrs.strategies import configure_tagged_union

from mqplug import Capabilities
from mqplug.testing.history._events.events import TAGS, Event, RunAction

VERSION: Final = 1


@attrs.frozen(kw_only=True)
class Guarantee:
    """What the backend promises, as far as it decides what is an anomaly.

    ``tells_trim``: a consumer that retention overtook hears of it. ``hands_out_current``: a member hands out nothing
    that another one acked, and stored, before it was asked for.
    """

    idempotent_producer: bool = True
    exactly_once: bool = True
    assignment_events: bool = True
    ack_granularity: Literal["message", "entry"] = "message"
    tells_trim: bool = True
    hands_out_current: bool = False

    @classmethod
    def of(cls, able: Capabilities, *, hands_out_current: bool = False) -> Guarantee:
        """What follows from capabilities. A backend that cannot be asked to trim need not tell a group of it."""
        return cls(
            idempotent_producer=able.idempotent_producer,
            exactly_once=able.exactly_once,
            assignment_events=able.assignment_events,
            ack_granularity=able.ack_granularity,
            tells_trim=able.trim,
            hands_out_current=hands_out_current,
        )


@attrs.frozen
class History:
    """The events of a run, in the order in which they ended."""

    events: Sequence[Event] = attrs.field(repr=lambda events: f"{len(events)} events")
    guarantee: Guarantee = Guarantee()
    seed: str = ""

    def only(self, events: Iterable[Event]) -> History:
        """The same run, of which nothing is known but these events."""
        return attrs.evolve(self, events=tuple(events))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON lines: a head, and a line for each event."""
        head = {"mqplug-history": VERSION, "seed": self.seed, "guarantee": attrs.asdict(self.guarantee)}
        lines = (json.dumps(line, separators=(",", ":")) for line in (head, *map(to_json, self.events)))
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> History:
        """Read what ``save`` wrote."""
        with Path(path).open(encoding="utf-8") as file:
            head = json.loads(file.readline())
            version = head.get("mqplug-history") if isinstance(head, dict) else None
            if version != VERSION:
                raise ValueError(f"{path} is no history of version {VERSION}: it says {version!r}")
            events = tuple(from_json(json.loads(line)) for line in file)
        return cls(events, _converter.structure(head["guarantee"], Guarantee), head["seed"])


def to_json(event: Event) -> dict[str, Any]:
    """An event as a line of a file has it."""
    made: dict[str, Any] = _converter.unstructure(event)
    return made


def from_json(line: Any) -> Event:
    """The event of such a line."""
    return _converter.structure(line, Event)


_converter = Converter(omit_if_default=True)
configure_tagged_union(RunAction, _converter, tag_generator=TAGS.__getitem__, tag_name="did")
