"""The harness: how the kit reaches and disturbs a backend, and how long it waits.

``harness_for`` returns the one that the backend's distribution provides, or one that can only connect. A distribution
provides one by an entry point in the group ``mqplug.harnesses``, named after its backend: a function that takes the URL
and returns a context manager of a ``Harness``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Self

import attrs
from attrs.validators import gt

import mqplug
from mqplug import Client, Position
from mqplug.introspection import registered, target_of
from mqplug_testing._case_ids import check_known


@attrs.frozen(kw_only=True)
class Waiting:
    """Seconds to wait, for each kind of waiting.

    ``something`` bounds the wait for an expected event; the wait ends as soon as it happens. ``nothing`` is how long to
    watch for an event that must not happen: it is always waited out, so a backend that is slow to deliver needs more.
    ``poll`` is the pause between two looks at a condition that cannot be waited for.
    """

    something: float = attrs.field(default=30.0, validator=gt(0))
    nothing: float = attrs.field(default=0.2, validator=gt(0))
    poll: float = attrs.field(default=0.01, validator=gt(0))

    def scaled(self, factor: float) -> Self:
        """Return a copy with all three multiplied by `factor`."""
        return attrs.evolve(
            self, something=self.something * factor, nothing=self.nothing * factor, poll=self.poll * factor
        )


OUTAGE: Final = "outage"
NOT_HOOKS: Final = frozenset({"connect", "waiting", "absent", "known_failures", "hands_out_current"})
"""The fields of a harness that are not hooks."""
DISTURBING_HOOKS: Final = (
    "restart", "kill", "pause", "kill_node", "cut_network", "stall_replies", "drop_replies", "reset_replies",
    "unload", "fill_disk", "corrupt_tail", "tear_tail",
)  # fmt: skip
"""The hooks that disturb a server, its network or its disk. A harness over a server that others run has none."""


def _check_absent(harness: Harness, _: object, absent: Mapping[str, str]) -> None:
    if unknown := sorted(absent.keys() - hooks()):
        raise ValueError(f"absent: unknown hook {', '.join(unknown)}")
    if given := sorted(hook for hook in absent if hook != OUTAGE and getattr(harness, hook) is not None):
        raise ValueError(f"absent: the harness has the hook {', '.join(given)}")


@attrs.frozen(kw_only=True)
class Harness:
    """A plugin author's description of a backend. Only ``connect`` is required; each hook enables more cases.

    ``connect`` returns a fresh client of the same backend at each call: data that one client stores is visible to the
    others.
    ``extended`` connects as ``connect`` does, with these extensions.
    ``admin`` connects with the right to administer, if the clients of ``connect`` have only the rights to send and to
    receive: the kit then creates, trims and deletes its topics with it. Cases about administering itself still use
    ``connect``: name them in ``known_failures``.
    ``second_process`` is a URL by which ``mqplug.connect`` reaches the same backend from another process.

    With it, the history check runs its actors in processes, which it kills and stops. ``process_behind_network`` is
    such a URL for clients that ``cut_network`` disconnects.
    ``host`` is for a backend that lives in its clients' processes: it returns the pid of the process that hosts it now.
    The history check kills or stops that process most often.

    Hooks for a broker or a store:

    ``restart`` stops it cleanly and starts it again; all clients are closed before.
    ``kill`` ends it as ``kill -9`` does, with clients connected; ``start`` starts it again, with the data it had
    stored.
    ``kill_node`` ends one of several nodes, so that the others continue; ``start_node`` starts that node again.
    ``pause`` stops it without ending it, and ``unpause`` resumes it.
    ``cut_network`` disconnects it from its clients, and ``heal_network`` reconnects them. If only some clients can be
    cut off, ``behind_network`` connects one of those.
    ``stall_replies``, ``drop_replies`` and ``reset_replies`` affect only the replies of the server: they are delayed
    until the network is healed, lost, or replaced by a reset of the connection. ``heal_network`` ends each. A ``Proxy``
    provides them all.
    ``unload`` makes it close a topic that clients use, as when a server hands it over to another: they have to open it
    again.
    ``fill_disk`` leaves it no disk space until the returned function is called.
    ``tear_tail`` leaves half a write at the end of the stored data, as a power cut does; all clients are closed or
    killed before. ``corrupt_tail`` damages the last message stored in this topic while no client is connected; the
    returned function repairs it.
    ``copy_store`` copies the files of a closed store, and connects to the copy.
    ``unreachable`` connects to a server of this backend at a host and port, with a timeout: the kit opens ports at
    which no such server answers.
    ``intruder`` connects with wrong credentials, and a timeout.

    ``hands_out_current`` is True if a member never delivers a message that another member acked and stored before the
    request, however late it notices the loss of its partition. The history check then verifies that.

    Hooks for topics:

    ``trim_before`` removes the messages before a position of a topic, as near to it as the backend can. If it is None
    and the capability is declared, ``client.trim`` does it.
    ``roll`` is called between two runs of messages, before the first of them is trimmed: a backend that removes only
    whole segments starts a new one.
    ``enforce`` makes the backend apply the retention of a topic now. It may do nothing if the backend does so by
    itself.
    ``hasty`` connects as ``connect`` does, but a member that is not polled for ``poll_limit`` seconds loses its
    partitions. A backend without such a limit does not need it.
    ``codecs`` maps the name of each codec to a function that connects as ``connect`` does, but compresses what it
    sends.

    ``waiting`` holds the kit's waiting times.

    ``absent`` gives the reason why a hook is missing, by its name; a skipped case shows it. The hook ``outage``, that
    no server answers between ``kill`` and ``start``, exists if both do, and can only be declared absent. It is absent
    if another process takes over at once.

    ``known_failures`` gives the reason why a case fails over this backend, by case id, however the case is run. One
    that passes fails the run.
    """

    connect: Callable[[], Client]
    extended: Callable[[Sequence[object]], Client] | None = None
    admin: Callable[[], Client] | None = None
    second_process: str | None = None
    process_behind_network: str | None = None
    host: Callable[[], int | None] | None = None
    hands_out_current: bool = False
    restart: Callable[[], None] | None = None
    kill: Callable[[], None] | None = None
    start: Callable[[], None] | None = None
    kill_node: Callable[[], None] | None = None
    start_node: Callable[[], None] | None = None
    pause: Callable[[], None] | None = None
    unpause: Callable[[], None] | None = None
    cut_network: Callable[[], None] | None = None
    heal_network: Callable[[], None] | None = None
    behind_network: Callable[[], Client] | None = None
    stall_replies: Callable[[], None] | None = None
    drop_replies: Callable[[], None] | None = None
    reset_replies: Callable[[], None] | None = None
    unload: Callable[[str], None] | None = None
    fill_disk: Callable[[], Callable[[], None]] | None = None
    tear_tail: Callable[[], None] | None = None
    corrupt_tail: Callable[[str], Callable[[], None]] | None = None
    copy_store: Callable[[], Client] | None = None
    unreachable: Callable[[str, int, float], Client] | None = None
    intruder: Callable[[float], Client] | None = None
    trim_before: Callable[[Client, str, Position], None] | None = None
    roll: Callable[[Client, str], None] | None = None
    enforce: Callable[[Client, str], None] | None = None
    hasty: Callable[[], Client] | None = None
    poll_limit: float = attrs.field(default=0.5, validator=gt(0))
    codecs: Mapping[str, Callable[[], Client]] | None = None
    waiting: Waiting = attrs.field(factory=Waiting)
    absent: Mapping[str, str] = attrs.field(factory=dict, validator=_check_absent)
    known_failures: Mapping[str, str] = attrs.field(factory=dict, validator=check_known)

    def has(self, hook: str, client: Client) -> bool:
        """Return whether a case that needs this hook can be run."""
        if hook == OUTAGE:
            return None not in (self.kill, self.start) and OUTAGE not in self.absent
        if hook == "trim_before" and client.capabilities.trim:
            return True
        return getattr(self, hook) is not None

    def lacks(self, hook: str) -> str:
        """Return a sentence that this hook is missing, with the reason."""
        return ": ".join(filter(None, [f"the harness has no {hook}", self.absent.get(hook)]))


@cache
def hooks() -> frozenset[str]:
    """Return the names of all hooks that a case may need."""
    return frozenset({field.name for field in attrs.fields(Harness)} - NOT_HOOKS | {OUTAGE})


HARNESS_ENTRY_POINTS: Final = "mqplug.harnesses"

HarnessFactory = Callable[[str], AbstractContextManager[Harness]]


def harness_for(text: str) -> AbstractContextManager[Harness]:
    """Return the harness of the backend that this URL, or this configuration file, names."""
    target = target_of(text)
    if isinstance(target, str):
        for entry in entry_points(group=HARNESS_ENTRY_POINTS, name=target.partition(":")[0]):
            factory: HarnessFactory = entry.load()
            return factory(target)
    return _connecting(target)


@contextmanager
def _connecting(target: str | Path) -> Iterator[Harness]:
    def connect(extensions: Sequence[object] = ()) -> Client:
        return mqplug.connect(target, extensions=extensions)

    with connect() as client:  # keeps a store that its last client would end, for the whole run
        elsewhere = isinstance(target, str) and client.backend not in registered("backend")
        yield Harness(connect=connect, extended=connect, second_process=str(target) if elsewhere else None)
