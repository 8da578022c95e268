"""A history: the events of a run and the guarantees of the backend, with the file that keeps them."""

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
from mqplug_testing.history._events.events import TAGS, Event, RunAction

HISTORY_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class Guarantee:
    """The promises of a backend that decide which events are anomalies.

    ``tells_trim``: a consumer overtaken by retention gets an error. ``hands_out_current``: a member never delivers a
    message that another member acked and stored before the request.
    """

    idempotent_producer: bool = True
    exactly_once: bool = True
    assignment_events: bool = True
    ack_granularity: Literal["message", "entry"] = "message"
    tells_trim: bool = True
    hands_out_current: bool = False

    @classmethod
    def of(cls, able: Capabilities, *, hands_out_current: bool = False) -> Guarantee:
        """Return the guarantee that follows from capabilities. A backend without ``trim`` need not report a trim to a
        group.
        """
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
        """Return the same run with only these events."""
        return attrs.evolve(self, events=tuple(events))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON lines: a head, and a line for each event."""
        head = {"mqplug-history": HISTORY_VERSION, "seed": self.seed, "guarantee": attrs.asdict(self.guarantee)}
        lines = (json.dumps(line, separators=(",", ":")) for line in (head, *map(to_json, self.events)))
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> History:
        """Read a file that ``save`` wrote."""
        with Path(path).open(encoding="utf-8") as file:
            head = json.loads(file.readline())
            version = head.get("mqplug-history") if isinstance(head, dict) else None
            if version != HISTORY_VERSION:
                raise ValueError(f"{path} is not a history of version {HISTORY_VERSION}: its version is {version!r}")
            events = tuple(from_json(json.loads(line)) for line in file)
        return cls(events, _converter.structure(head["guarantee"], Guarantee), head["seed"])


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as it is stored in a line of a file."""
    made: dict[str, Any] = _converter.unstructure(event)
    return made


def from_json(line: Any) -> Event:
    """Return the event of a line of a file."""
    return _converter.structure(line, Event)


_converter = Converter(omit_if_default=True)
configure_tagged_union(RunAction, _converter, tag_generator=TAGS.__getitem__, tag_name="did")
