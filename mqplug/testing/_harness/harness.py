"""The harness: how the kit reaches a backend, and what it can do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

import attrs
from attrs.validators import gt

from mqplug import Client, Position
from mqplug.testing._case_ids import check_known
from mqplug.testing._harness.waiting import Waiting

OUTAGE: Final = "outage"
BESIDE: Final = frozenset({"connect", "waiting", "absent", "known_failures", "hands_out_current"})
"""The fields of a harness that are no hooks."""
DISTURBING_HOOKS: Final = (
    "restart", "kill", "pause", "kill_node", "cut_network", "stall_replies", "drop_replies", "reset_replies",
    "fill_disk", "corrupt_tail", "tear_tail",
)  # fmt: skip
"""The hooks that disturb a server, its network or its disk. A harness over a server that others run has none."""


def _check_absent(harness: Harness, _: object, absent: Mapping[str, str]) -> None:
    if unknown := sorted(absent.keys() - hooks()):
        raise ValueError(f"absent: a harness has no hook {', '.join(unknown)}")
    if given := sorted(hook for hook in absent if hook != OUTAGE and getattr(harness, hook) is not None):
        raise ValueError(f"absent: these are given all the same: {', '.join(given)}")


@attrs.frozen(kw_only=True)
class Harness:
    """What a plugin's author gives to the kit. Only ``connect`` is needed; each hook allows more cases.

    ``connect`` returns a fresh client of the same backend at each call: what one stores, the others see.
    ``extended`` connects as ``connect`` does, with these extensions.
    ``second_process`` is a URL by which ``mqplug.connect`` reaches the same backend from another process.

    The history check then has its actors in processes, which it kills and stops. ``process_behind_network`` is such a
    URL, too, of clients that ``cut_network`` takes the network away from.
    ``host`` is for a backend that lives in its clients' processes: it names the one that it lives in just now, by its
    number. The history check strikes that one before all.

    What happens to a broker or store:

    ``restart`` stops it cleanly and starts it again; all clients are closed by then.
    ``kill`` ends it as ``kill -9`` does, under its clients; ``start`` starts it again, with what it had stored.
    ``kill_node`` ends one of several nodes, so that the others go on; ``start_node`` starts that one again.
    ``pause`` stops it without ending it, and ``unpause`` lets it go on.
    ``cut_network`` takes the network away between it and its clients, and ``heal_network`` brings it back. If only some
    clients can be cut off, ``behind_network`` connects one of those.
    ``stall_replies``, ``drop_replies`` and ``reset_replies`` take only the answers of the server away: they come when
    the network is healed, are lost, or the connection is reset in their place. ``heal_network`` ends each. A ``Proxy``
    does all of it.
    ``fill_disk`` leaves it no room, until the function that it returns is called.
    ``tear_tail`` leaves half a write at the end of what is stored, as a power cut does; all clients are closed or
    killed by then. ``corrupt_tail`` damages the last message that was stored in this topic, while nobody is connected;
    the function that it returns mends it.
    ``copy_store`` copies what a closed store consists of, and connects to the copy.
    ``unreachable`` connects to a server of this backend at a host and port, with a timeout: the kit opens ports at
    which no such server answers.
    ``intruder`` connects with credentials that are wrong, and a timeout.

    ``hands_out_current`` is True where a member hands out nothing that another one acked, and stored, before it was
    asked for, however late it notices that it lost its partition. The history check then looks for that.

    What happens to its topics:

    ``trim_before`` removes what lies before a position of a topic, as near to it as the backend can; where it is None,
    ``client.trim`` does it, if the capability is declared.
    ``roll`` is called between two runs of messages of which the first is to be trimmed: a backend that only
    removes whole segments begins a new one.
    ``enforce`` makes the backend look at once for what the retention of a topic has removed; where it does so by
    itself, it has nothing to do.
    ``hasty`` connects as ``connect`` does, but a member whose client did not poll for ``poll_limit`` seconds loses its
    partitions. A backend that knows no such limit has no need of it.
    ``codecs`` are functions that connect as ``connect`` does, but compress what they send: by the name of the codec.

    ``waiting`` says how long to wait for it.

    ``absent`` says why there is no such hook, by its name, for whoever reads that a case was skipped. One is there by
    itself with ``kill`` and ``start``, and can only be said to be absent: ``outage``, that nobody answers between the
    two. It is absent where another process takes over at once.

    ``known_failures`` says for case ids why they fail over this backend, however it is run; one that passes after all
    fails the run.
    """

    connect: Callable[[], Client]
    extended: Callable[[Sequence[object]], Client] | None = None
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
        """Whether a case that needs this hook can be run."""
        if hook == OUTAGE:
            return None not in (self.kill, self.start) and OUTAGE not in self.absent
        if hook == "trim_before" and client.capabilities.trim:
            return True
        return getattr(self, hook) is not None

    def lacks(self, hook: str) -> str:
        """Say that there is no such hook, and why."""
        return ": ".join(filter(None, [f"the harness has no {hook}", self.absent.get(hook)]))


@cache
def hooks() -> frozenset[str]:
    """The names of what a case may need."""
    return frozenset({field.name for field in attrs.fields(Harness)} - BESIDE | {OUTAGE})
