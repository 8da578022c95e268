"""What new topics retain where their creator does not say it."""

from __future__ import annotations

import attrs

from mqplug.spi import Action, CreateTopic


@attrs.frozen
class TopicDefaults:
    """The retention of topics that are made through one connection, in seconds, and in bytes of each partition."""

    retention: float | None = None
    retention_bytes: int | None = None

    def filled_in(self, action: Action) -> Action:
        """Return the action, with the defaults where it creates a topic and leaves them open."""
        if not isinstance(action, CreateTopic):
            return action
        seconds = self.retention if action.retention is None else action.retention
        size = self.retention_bytes if action.retention_bytes is None else action.retention_bytes
        return attrs.evolve(action, retention=seconds, retention_bytes=size)
