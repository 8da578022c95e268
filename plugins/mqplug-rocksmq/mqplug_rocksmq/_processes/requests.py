"""What the owner of a store does for other processes, a question at a time: each is one call of its connection."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mqplug import NotAssigned
from mqplug_rocksmq._processes.care_requests import CARE
from mqplug_rocksmq._processes.codec import error_words, made, plain
from mqplug_rocksmq._processes.frames import Header
from mqplug_rocksmq._store.deduplication import Request

if TYPE_CHECKING:
    from mqplug_rocksmq._processes.server import Server


class Consumers:
    """The consumers of other processes, by the names that those know them by."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drivers: dict[str, Any] = {}

    def add(self, driver: Any) -> str:
        """Return the name of a consumer; only its process knows it."""
        token = secrets.token_hex(8)
        with self._lock:
            self._drivers[token] = driver
        return token

    def get(self, token: str) -> Any:
        """Return a consumer; ``NotAssigned`` when it is not any more."""
        if driver := self._drivers.get(token):
            return driver
        raise NotAssigned(
            "this member of the group lost its partitions: it did not answer in time", backend="rocksmq",
            fix="Receive again: it joins anew, and what was not stored comes again",
        )  # fmt: skip

    def remove(self, token: str) -> None:
        """Forget one."""
        with self._lock:
            self._drivers.pop(token, None)


def answer(server: Server, request: Header) -> Header:
    """Return what answers a question; what goes wrong is an answer too."""
    try:
        if care := CARE.get(request["call"]):
            return care(server.store, request)
        call = CALLS[request["call"]]
        return {"answer": plain(call(server, *made(request["arguments"]), timeout=float(request["timeout"])))}
    except Exception as error:  # noqa: BLE001 - it is raised at the other side
        return {"error": error_words(error)}


def _asked_of_home(name: str) -> Callable[..., Any]:
    def call(server: Server, *arguments: Any, timeout: float) -> Any:
        return getattr(server.home, name)(*arguments, timeout=timeout)

    return call


def _administer(server: Server, action: Any, name: str, again: bool, timeout: float) -> Any:
    return server.home.administer(action, timeout, Request(bytes.fromhex(name), again))


def _commit(server: Server, token: str, positions: Any, timeout: float) -> None:
    server.consumers.get(token).commit(positions, timeout)


def _settle(server: Server, token: str, settled: Any, timeout: float) -> None:
    server.consumers.get(token).settle(settled, timeout)


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "administer": _administer,
    "commit": _commit,
    "settle": _settle,
    **{
        name: _asked_of_home(name)
        for name in (
            "bounds",
            "health",
            "move_group",
            "reserve_segment",
            "resolve",
            "restore_group",
            "settle_late",
            "watermarks",
        )
    },
}
