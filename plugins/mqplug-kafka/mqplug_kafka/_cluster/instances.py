"""The names of static members: one for each consumer that a client has in a group."""

from __future__ import annotations

from threading import Lock


class Instances:
    """Names consumers after the client's ``instance_id``: the first of a group has it, the second ``NAME-2``.

    A client that opens its consumers in the same order after a restart gives them the same names. Kafka would fence the
    older one of two that share a name.
    """

    def __init__(self, instance_id: str | None) -> None:
        self._instance_id = instance_id
        self._lock = Lock()
        self._taken: set[tuple[str, str]] = set()

    def take(self, group: str) -> str | None:
        """Return the first name that no open consumer of the group has; None if members are not static."""
        if self._instance_id is None:
            return None
        with self._lock:
            name, number = self._instance_id, 1
            while (group, name) in self._taken:
                number += 1
                name = f"{self._instance_id}-{number}"
            self._taken.add((group, name))
            return name

    def release(self, group: str, name: str | None) -> None:
        """Let the next consumer of the group have the name."""
        if name is not None:
            with self._lock:
                self._taken.discard((group, name))
