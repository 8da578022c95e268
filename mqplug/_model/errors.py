"""The errors of mqplug, one vocabulary for all backends.

Drivers map their clients' errors to these once, at their edge. Each error reports what happened, where, whether a retry
can help, and how to fix it. All can be pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mqplug._model.log import GroupMember


class Error(Exception):
    """The root of all errors that mqplug raises, except wrong types and numbers."""

    retryable = False
    fix: str | None = None
    """The fix: given where the error was raised, or the default for this kind of error."""

    def __init__(
        self,
        message: str,
        *,
        fix: str | None = None,
        backend: str | None = None,
        topic: str | None = None,
        operation: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if fix is not None:
            self.fix = fix
        self.backend = backend
        self.topic = topic
        self.operation = operation
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        place = ", ".join(
            f"{name} {value!r}"
            for name, value in (("backend", self.backend), ("topic", self.topic), ("operation", self.operation))
            if value
        )
        text = f"{self.message} ({place})" if place else self.message
        return f"{text}. {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_error, (type(self), self.args, self.__dict__)

    def at(self, *, backend: str | None = None, topic: str | None = None, operation: str | None = None) -> Error:
        """Fill in the missing parts of where it happened. Return the error itself."""
        self.backend = self.backend or backend
        self.topic = self.topic or topic
        self.operation = self.operation or operation
        return self


def rebuild_error(kind: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(Error):
    """A setting is unknown, missing, of the wrong type, or contradicts another."""

    fix = "Fix the settings"


class PluginError(Error):
    """A plugin is missing, broken, too old, or raised an error that drivers must not raise."""

    fix = "Update the plugin, or report it to its authors"


class ConnectError(Error):
    """The server could not be reached, or did not answer in its own protocol."""

    fix = "Check the address, and that the server runs and is reachable"
    retryable = True


class AuthError(Error):
    """The server refused the credentials."""

    fix = "Check the credentials"


class AccessDenied(Error):
    """The credentials are valid, but do not allow this."""

    fix = "Grant the right to do this, or use other credentials"


class TopicNotFound(Error):
    """No topic has this name."""

    fix = "Create it with create_topic, or open with create=True"


class TopicExists(Error):
    """A topic of this name exists already."""

    fix = "Choose another name, or pass exist_ok=True"


class InvalidName(Error):
    """The name of a topic or group is not legal on every backend."""

    fix = "Use 1 to 249 of A-Z a-z 0-9 . _ -"


class InvalidMessageId(Error):
    """An id or position is damaged, or belongs to another backend, topic or incarnation."""

    fix = "Use an id or position of the same topic, unchanged"


class InvalidTimestamp(Error, ValueError):
    """A message's time does not fit a datetime. ``milliseconds`` is that time, since 1970."""

    fix = "Read error.milliseconds, or the batch's timestamps or to_arrow(), which hold any time"

    def __init__(self, message: str, *, milliseconds: int = 0, **where: Any) -> None:
        super().__init__(message, **where)
        self.milliseconds = milliseconds


class NotAssigned(Error):
    """The partition does not belong to this consumer, or no longer does."""

    fix = "Use the partitions that assignment() lists"


class GroupNotFound(Error):
    """The group has no position on this topic."""

    fix = "List the groups, or open a consumer with this group first"


class ConsumerBusy(Error):
    """The group is in use in a way that excludes this consumer, or this change.

    ``members`` are the members of a group that could not be moved or deleted, if the backend reports them.
    """

    fix = "Close the other consumers of the group first"
    retryable = True
    members: tuple[GroupMember, ...] = ()


class Fenced(Error):
    """A newer producer or member took the place of this one."""

    fix = "Open it again, and make sure that only one is open"


class MessageTooLarge(Error):
    """The message is larger than the backend accepts."""

    fix = "Send less, or raise the backend's limit"


class InvalidRecord(Error):
    """The backend refuses a record with this content."""

    fix = "Change the record as described"


class QueueFull(Error):
    """The producer's queue of messages in flight is full."""

    fix = "Wait with flush(), or slow down"
    retryable = True


class SendFailed(Error):
    """Some messages may not be stored. ``results`` has an id or an error for each."""

    fix = "Read results: each is an id or an error"

    def __init__(self, message: str, *, results: Sequence[Any] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.results = list(results)


class NotCommitted(Error):
    """The message is not stored, because its transaction is still open or was aborted."""

    fix = "Read the result after the commit; after an abort, send it again"


class Timeout(Error, TimeoutError):
    """The call did not end within its timeout."""

    fix = "Pass a longer timeout, or try again"
    retryable = True


class ConcurrentUse(Error):
    """Two threads or tasks used an object at once that only one may use."""

    fix = "Receive from one thread, or open a consumer for each"


class AlreadyOpen(Error):
    """Another process, or an incompatible client, has this store open."""

    fix = "Close it there first"


class Closed(Error):
    """The object was closed."""

    fix = "Open another one"


class CloseIncomplete(Error):
    """Close ran out of time, or could not find out the outcome of some messages."""

    fix = "Close with more time"


class Corrupt(Error):
    """Stored data is damaged. None of it was returned."""

    fix = "Restore from a backup"


class StorageFull(Error):
    """The store has no room left for messages."""

    fix = "Free space for the store"
    retryable = True


class Unsupported(Error):
    """The backend does not have this capability, and the core does not emulate it."""

    fix = "Check client.capabilities"

    def __init__(self, capability: str, message: str | None = None, **where: Any) -> None:
        super().__init__(message or f"{capability!r} is not supported here", **where)
        self.capability = capability


class ForkedClient(Error):
    """A client was used in a process that was forked after it was opened, or cannot be opened in a forked process."""

    fix = "Connect in the child process"
