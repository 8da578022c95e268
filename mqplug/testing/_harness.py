"""The harness: how the kit reaches a backend, and what it can do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from mqplug import Client, Position


@attrs.frozen(kw_only=True)
class Harness:
    """What a plugin's author gives to the kit. Only ``connect`` is needed; each hook allows more cases.

    ``connect`` returns a fresh client of the same backend at each call: what one stores, the others see.
    ``restart`` stops the broker or store cleanly and starts it again; all clients are closed by then.
    ``trim`` removes what lies before a position of a topic, as near to it as the backend can; where it is None,
    ``client.trim`` does it, if the capability is declared.
    ``roll`` is called between two runs of messages of which the first is to be trimmed: a backend that only
    removes whole segments begins a new one.
    ``url`` is a URL by which ``mqplug.connect`` reaches the same backend from another process.
    ``connect_to`` connects to a server of this backend at a host and port, with a timeout: the kit opens ports at
    which no such server answers.
    ``kill`` ends the broker as ``kill -9`` does, under its clients; ``start`` starts it again, with what it had stored.
    ``pause`` stops the broker without ending it, and ``unpause`` lets it go on; ``cut`` takes the network away between
    it and its clients, and ``heal`` brings it back.
    ``enforce`` makes the backend look at once for what the retention of a topic has removed; where it does so by
    itself, it has nothing to do.
    ``tear`` leaves half a write at the end of what is stored, as a power cut does; all clients are closed or killed by
    then.
    ``codecs`` are functions that connect as ``connect`` does, but compress what they send: by the name of the codec.
    ``intruder`` connects with credentials that are wrong, and a timeout.
    """

    connect: Callable[[], Client]
    restart: Callable[[], None] | None = None
    trim: Callable[[Client, str, Position], None] | None = None
    roll: Callable[[Client, str], None] | None = None
    url: str | None = None
    connect_to: Callable[[str, int, float], Client] | None = None
    kill: Callable[[], None] | None = None
    start: Callable[[], None] | None = None
    pause: Callable[[], None] | None = None
    unpause: Callable[[], None] | None = None
    cut: Callable[[], None] | None = None
    heal: Callable[[], None] | None = None
    enforce: Callable[[Client, str], None] | None = None
    tear: Callable[[], None] | None = None
    codecs: Mapping[str, Callable[[], Client]] | None = None
    intruder: Callable[[float], Client] | None = None

    def has(self, hook: str, client: Client) -> bool:
        """Whether this hook can be called."""
        if hook == "trim" and client.capabilities.trim:
            return True
        return getattr(self, hook) is not None
