"""A model of the rules: a small program without input or output that says what a backend may answer.

The parts of a ``World`` have a method for each public call, named after what happened: ``world.topics.sent``,
``world.consumers.received``. It is given what the call returned or raised, and raises ``RuleBroken`` if the rules do
not allow that; otherwise it remembers what follows from it. It never guesses what a backend may choose: ids, log times
and hand-overs are adopted as they are seen, and must stay consistent from then on.
"""

from __future__ import annotations

from mqplug_testing.model.logs import Content, LogModel, LogTimes, Near
from mqplug_testing.model.rules import RULES, Outcome, RuleBroken
from mqplug_testing.model.world import World

__all__ = ["RULES", "Content", "LogModel", "LogTimes", "Near", "Outcome", "RuleBroken", "World"]
