"""What the owner of a store does for other processes, a question at a time: each is one call of its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mqplug_rocksmq._processes.care_requests import CARE_REQUESTS
from mqplug_rocksmq._processes.codec import error_to_json, from_json, to_json
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.session import OwnerServices
from mqplug_rocksmq._store.deduplication import Request


def answer_request(server: OwnerServices, request: FrameHeader) -> FrameHeader:
    """Return what answers a question; what goes wrong is an answer too."""
    try:
        if care := CARE_REQUESTS.get(request["call"]):
            return care(server.store, request)
        call = CALLS[request["call"]]
        return {"answer": to_json(call(server, *from_json(request["arguments"]), timeout=float(request["timeout"])))}
    except Exception as error:  # noqa: BLE001 - it is raised at the other side
        return {"error": error_to_json(error)}


def _asked_of_home(name: str) -> Callable[..., Any]:
    def call(server: OwnerServices, *arguments: Any, timeout: float) -> Any:
        return getattr(server.home, name)(*arguments, timeout=timeout)

    return call


def _administer(server: OwnerServices, action: Any, name: str, again: bool, timeout: float) -> Any:
    return server.home.administer(action, timeout, Request(bytes.fromhex(name), again))


def _commit(server: OwnerServices, token: str, positions: Any, timeout: float) -> None:
    server.consumers.get(token).commit(positions, timeout)


def _settle(server: OwnerServices, token: str, settled: Any, timeout: float) -> None:
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
