"""A TCP proxy that takes the network away: wholly, or only the answers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, Final, Literal, Self, TypedDict

Address = tuple[str, int]
Replies = Literal["pass", "stall", "drop", "reset"]

HOST: Final = "127.0.0.1"
BACKLOG: Final = 128
CHUNK_BYTES: Final = 64 * 1024
STEP_S: Final = 30.0  # for the proxy's own thread, on a busy machine
RESET: Final = struct.pack("ii", 1, 0)  # a close with this SO_LINGER resets the connection


class NetworkHooks(TypedDict):
    """The hooks of a harness that a proxy provides."""

    cut_network: Callable[[], None]
    heal_network: Callable[[], None]
    stall_replies: Callable[[], None]
    drop_replies: Callable[[], None]
    reset_replies: Callable[[], None]


class Proxy:
    """Carries connections to a server until it is told otherwise.

    ``Proxy(9092)`` listens at a free port of its own, ``proxy.port``, for clients of the server at port 9092 of this
    machine; another machine's is ``("host", 9092)``. Several targets share one network, and have ``proxy.ports`` in
    their order; ``ports=`` chooses where to listen. A server that tells its clients where to go on, as Kafka does,
    has to name the proxy's address.

    ``cut``, ``stall_replies``, ``drop_replies`` and ``reset_replies`` hold until ``heal``. Each chunk is treated by
    what holds when it is passed on, as a whole. All connections, and the thread that carries them, end with ``close``,
    or with the ``with`` block.
    """

    def __init__(self, *targets: Address | int, ports: Sequence[int] = ()) -> None:
        listeners = zip(targets, ports or [0] * len(targets), strict=True)
        self._entrances = {_Entrance(port): _address(target) for target, port in listeners}
        self.ports = [entrance.port for entrance in self._entrances]
        self.dropped = 0  # bytes of replies that nobody got
        self._links: set[_Link] = set()
        self._replies: Replies = "pass"
        self._carrying = asyncio.Event()
        self._answering = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mqplug.testing proxy", daemon=True)
        self._thread.start()
        self._run(self._heal())

    @property
    def port(self) -> int:
        """Where the clients of the first target connect."""
        return self.ports[0]

    def hooks(self) -> NetworkHooks:
        """Return what a harness takes: ``Harness(..., **proxy.hooks())``."""
        return {
            "cut_network": self.cut, "heal_network": self.heal, "stall_replies": self.stall_replies,
            "drop_replies": self.drop_replies, "reset_replies": self.reset_replies,
        }  # fmt: skip

    def cut(self) -> None:
        """Carry nothing, as behind a pulled cable.

        Nobody is told: connections stay open, not even their end is passed on, and who connects gets no answer. When
        it is healed the same connections go on, and what was said meanwhile arrives late.
        """
        self._run(self._cut())

    def stall_replies(self) -> None:
        """Carry what clients say, and keep what the server answers: it arrives when the network is healed."""
        self._run(self._treat_replies("stall"))

    def drop_replies(self) -> None:
        """Carry what clients say, and lose what the server answers.

        When the network is healed, connections that lost something are reset.
        """
        self._run(self._treat_replies("drop"))

    def reset_replies(self) -> None:
        """Carry what clients say, and reset a connection as soon as the server answers on it."""
        self._run(self._treat_replies("reset"))

    def heal(self) -> None:
        """Carry everything again, on the old connections and on new ones."""
        self._run(self._heal())

    def close(self) -> None:
        """End all connections, and listen no more. Closing twice is harmless."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEP_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # in the proxy's own thread --------------------------------------------------------------------------------

    def _run(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(STEP_S)

    async def _cut(self) -> None:
        if self._carrying.is_set():
            self._carrying.clear()
            for entrance in self._entrances:
                self._loop.remove_reader(entrance.listener)
                entrance.deafen()

    async def _treat_replies(self, how: Replies) -> None:
        await self._heal()
        self._replies = how
        self._answering.clear()

    async def _heal(self) -> None:
        for link in list(self._links):
            if link.has_hole:
                link.reset()
        self._replies = "pass"
        self._answering.set()
        if not self._carrying.is_set():
            self._carrying.set()
            for entrance, target in self._entrances.items():
                entrance.hear()
                self._loop.add_reader(entrance.listener, self._accept, entrance.listener, target)

    async def _end(self) -> None:
        for entrance in self._entrances:
            self._loop.remove_reader(entrance.listener)
            entrance.close()
        links = list(self._links)
        for link in links:
            link.task.cancel()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)

    def _accept(self, listener: socket.socket, target: Address) -> None:
        with suppress(OSError):  # the client may have gone already
            client, _ = listener.accept()
            link = _Link(client)
            self._links.add(link)
            link.task = self._loop.create_task(self._carry(link, target))
            link.task.add_done_callback(lambda _: self._links.discard(link))

    async def _carry(self, link: _Link, target: Address) -> None:
        """Carry one connection until both sides have ended it, or one has broken it."""
        with link.client, link.server:
            try:
                await self._loop.sock_connect(link.server, target)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(link.client, link.server))
                    both.create_task(self._answer(link))
            except* OSError:
                await self._carrying.wait()  # before that the other side must not see it

    async def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass on what the client says, and in the end that it has ended."""
        while data := await self._loop.sock_recv(source, CHUNK_BYTES):
            await self._carrying.wait()
            await self._loop.sock_sendall(sink, data)
        await self._carrying.wait()
        sink.shutdown(socket.SHUT_WR)

    async def _answer(self, link: _Link) -> None:
        """Pass on what the server says, or do what else holds just now."""
        while True:
            data = await self._loop.sock_recv(link.server, CHUNK_BYTES)
            await self._carrying.wait()
            while self._replies == "stall":
                await self._answering.wait()
            if self._replies == "reset":
                link.resets()
                raise ConnectionResetError
            if self._replies == "drop":
                link.has_hole = True
                self.dropped += len(data)
                if not data:
                    await self._answering.wait()  # the end is an answer, too
            elif data:
                await self._loop.sock_sendall(link.client, data)
            else:
                link.client.shutdown(socket.SHUT_WR)
                return


class _Link:
    """A client's connection, and the one to the server that it is carried over."""

    task: asyncio.Task[None]

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server = socket.socket()
        self.has_hole = False  # something is missing in what the client gets
        for side in (self.client, self.server):
            side.setblocking(False)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def resets(self) -> None:
        """Have the end of the connection be a reset, for both sides."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def reset(self) -> None:
        """Break the connection now."""
        self.resets()
        self.task.cancel()


class _Entrance:
    """A port that can be deaf: then who connects to it gets no answer, not even a refusal."""

    def __init__(self, port: int) -> None:
        self.listener = socket.create_server((HOST, port), backlog=BACKLOG)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self._stopper = socket.socket()

    def deafen(self) -> None:
        """Let packets of new connections vanish."""
        # A closed port refuses, and an open one is answered for by the kernel, until its queue is full. So it gets a
        # queue for one, and that one is ours.
        self.listener.listen(0)
        self._stopper = socket.socket()
        self._stopper.setblocking(False)
        with suppress(BlockingIOError):
            self._stopper.connect(self.listener.getsockname())

    def hear(self) -> None:
        """Take connections."""
        self._stopper.close()
        self.listener.listen(BACKLOG)

    def close(self) -> None:
        """Give the port back."""
        self._stopper.close()
        self.listener.close()


def _address(target: Address | int) -> Address:
    return (HOST, target) if isinstance(target, int) else target
