"""A TCP proxy that cuts or delays the network, breaks single connections, or disturbs only a server's replies."""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, closing, suppress
from threading import Thread
from typing import Any, Final, Literal, Self, TypedDict, TypeVar

HostPort = tuple[str, int]
Replies = Literal["pass", "stall", "drop", "reset"]
_Chunks = asyncio.Queue[tuple[float, "bytes | OSError"]]  # each with the time when it is due
T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"
BACKLOG_CONNECTIONS: Final = 128
CHUNK_BYTES: Final = 64 * 1024
MAX_CHUNKS_UNDER_WAY: Final = 64  # in each direction of a connection
PROXY_STEP_S: Final = 30.0  # for a step of the proxy's own thread, on a busy machine
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # a close with this SO_LINGER resets the connection


class NetworkHooks(TypedDict):
    """The hooks of a harness that a proxy provides."""

    cut_network: Callable[[], None]
    heal_network: Callable[[], None]
    stall_replies: Callable[[], None]
    drop_replies: Callable[[], None]
    reset_replies: Callable[[], None]


class Proxy:
    """A TCP proxy that forwards connections to a server until it is instructed otherwise.

    ``Proxy(9092)`` listens at a free port of its own, ``proxy.port``, for clients of the server at port 9092 of this
    machine; a server elsewhere is ``("host", 9092)``. Several targets share one network, and have ``proxy.ports`` in
    their order; ``ports=`` chooses where to listen. A server that redirects its clients to an address, as Kafka does,
    has to advertise the proxy's address.

    ``cut``, ``delay``, ``stall_replies``, ``drop_replies`` and ``reset_replies`` hold until ``heal``. Each chunk is
    treated as a whole, by the mode at the moment it is forwarded. ``close``, or the end of the ``with`` block, ends all
    connections and the proxy's thread.
    """

    def __init__(self, *targets: HostPort | int, ports: Sequence[int] = ()) -> None:
        listeners = zip(targets, ports or [0] * len(targets), strict=True)
        with ExitStack() as opened:
            self._entrances = {
                opened.enter_context(closing(_Entrance(port))): _address(target) for target, port in listeners
            }
            opened.pop_all()
        self.ports = [entrance.port for entrance in self._entrances]
        self.dropped = 0  # bytes of replies that were dropped
        self._links: set[_Link] = set()
        self._replies: Replies = "pass"
        self._carrying = asyncio.Event()
        self._answering = asyncio.Event()
        self._punctual = asyncio.Event()
        self._delay_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mqplug_testing proxy", daemon=True)
        self._thread.start()
        self._run(self._heal())

    @property
    def port(self) -> int:
        """The port for clients of the first target."""
        return self.ports[0]

    def hooks(self) -> NetworkHooks:
        """Return the hooks for a harness: ``Harness(..., **proxy.hooks())``."""
        return {
            "cut_network": self.cut, "heal_network": self.heal, "stall_replies": self.stall_replies,
            "drop_replies": self.drop_replies, "reset_replies": self.reset_replies,
        }  # fmt: skip

    def cut(self) -> None:
        """Forward nothing, as if a cable had been pulled.

        Neither side is notified: connections stay open, their end is not forwarded either, and new connections get no
        answer. After ``heal`` the same connections continue, and the bytes sent in between arrive late.
        """
        self._run(self._cut())

    def delay(self, seconds: float) -> None:
        """Forward everything this much later, in both directions: a round trip takes twice as long.

        As on a long line, many chunks can be under way. ``heal`` delivers them at once.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds={seconds} must be a finite number, 0 or more")
        self._run(self._late(seconds))

    def break_connections(self, count: int | None = None) -> int:
        """Reset ``count`` connections (None: all), and return the number of reset ones. The others continue.

        The most recently used ones are reset first. New connections can be opened.
        """
        if count is not None and count < 1:
            raise ValueError(f"count={count} must be 1 or more, or None for all connections")
        return self._run(self._break(count))

    def stall_replies(self) -> None:
        """Forward requests, and hold back the server's replies until the network is healed."""
        self._run(self._treat_replies("stall"))

    def drop_replies(self) -> None:
        """Forward requests, and drop the server's replies.

        When the network is healed, connections that lost bytes are reset.
        """
        self._run(self._treat_replies("drop"))

    def reset_replies(self) -> None:
        """Forward requests, and reset a connection as soon as the server replies on it."""
        self._run(self._treat_replies("reset"))

    def heal(self) -> None:
        """Forward everything again, on old and new connections."""
        self._run(self._heal())

    def close(self) -> None:
        """End all connections, and stop listening. Closing twice is harmless."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PROXY_STEP_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # in the proxy's own thread --------------------------------------------------------------------------------

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(PROXY_STEP_S)

    async def _cut(self) -> None:
        if self._carrying.is_set():
            self._carrying.clear()
            for entrance in self._entrances:
                self._loop.remove_reader(entrance.listener)
                entrance.ignore()

    async def _late(self, seconds: float) -> None:
        self._delay_s = seconds
        if seconds:
            self._punctual.clear()
        else:
            self._punctual.set()

    async def _break(self, count: int | None) -> int:
        broken = sorted(self._links, key=lambda link: link.carried_at, reverse=True)[:count]
        for link in broken:
            link.reset()
        await asyncio.gather(*(link.task for link in broken), return_exceptions=True)
        return len(broken)

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
        await self._late(0)
        if not self._carrying.is_set():
            self._carrying.set()
            for entrance, target in self._entrances.items():
                entrance.accept()
                self._loop.add_reader(entrance.listener, self._accept, entrance.listener, target)

    async def _end(self) -> None:
        for entrance in self._entrances:
            self._loop.remove_reader(entrance.listener)
            entrance.close()
        links = list(self._links)
        for link in links:
            link.task.cancel()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)

    def _accept(self, listener: socket.socket, target: HostPort) -> None:
        with suppress(OSError):  # the client may be gone already
            client, _ = listener.accept()
            link = _Link(client)
            self._links.add(link)
            link.task = self._loop.create_task(self._carry(link, target))
            link.task.add_done_callback(lambda _: self._links.discard(link))

    async def _carry(self, link: _Link, target: HostPort) -> None:
        """Forward one connection until both sides have ended it, or one has broken it."""
        with link.client, link.server:
            try:
                await self._loop.sock_connect(link.server, target)
                requests: _Chunks = asyncio.Queue(MAX_CHUNKS_UNDER_WAY)
                replies: _Chunks = asyncio.Queue(MAX_CHUNKS_UNDER_WAY)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._read(link, link.client, requests))
                    both.create_task(self._pass(requests, link.server))
                    both.create_task(self._read(link, link.server, replies))
                    both.create_task(self._answer(link, replies))
            except* OSError:
                await self._carrying.wait()  # until then the other side must not notice

    async def _read(self, link: _Link, source: socket.socket, chunks: _Chunks) -> None:
        """Queue each chunk with the time when it is due at the other side. The last one is empty, or an error."""
        data: bytes | OSError = b"-"
        while data and not isinstance(data, OSError):
            try:
                data = await self._loop.sock_recv(source, CHUNK_BYTES)
            except OSError as error:
                data = error
            link.carried_at = self._loop.time()
            await chunks.put((link.carried_at + self._delay_s, data))

    async def _due(self, chunks: _Chunks) -> bytes:
        """Return the next chunk when it is due."""
        due, data = await chunks.get()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._punctual.wait()
        if isinstance(data, OSError):
            raise data
        return data

    async def _pass(self, chunks: _Chunks, sink: socket.socket) -> None:
        """Forward requests, and at last the end of the stream."""
        while data := await self._due(chunks):
            await self._carrying.wait()
            await self._loop.sock_sendall(sink, data)
        await self._carrying.wait()
        sink.shutdown(socket.SHUT_WR)

    async def _answer(self, link: _Link, chunks: _Chunks) -> None:
        """Forward replies, or treat them by the current mode."""
        while True:
            data = await self._due(chunks)
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
                    await self._answering.wait()  # the end of the stream is a reply, too
            elif data:
                await self._loop.sock_sendall(link.client, data)
            else:
                link.client.shutdown(socket.SHUT_WR)
                return


class _Link:
    """A client's connection, and the proxy's connection to the server for it."""

    task: asyncio.Task[None]

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server = socket.socket()
        self.carried_at = 0.0  # when the last bytes came, from either side
        self.has_hole = False  # bytes are missing in the client's stream
        for side in (self.client, self.server):
            side.setblocking(False)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def resets(self) -> None:
        """Make closing either side reset its connection."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    def reset(self) -> None:
        """Reset the connection now."""
        self.resets()
        self.task.cancel()


class _Entrance:
    """A listening port that can ignore new connections: they get no answer, not even a refusal."""

    def __init__(self, port: int) -> None:
        self.listener = socket.create_server((LOOPBACK, port), backlog=BACKLOG_CONNECTIONS)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self._stopper = socket.socket()

    def ignore(self) -> None:
        """Ignore new connections."""
        # A closed port refuses, and the kernel accepts for an open one until its queue is full. So the queue gets room
        # for one connection, which the proxy itself takes.
        self.listener.listen(0)
        self._stopper = socket.socket()
        self._stopper.setblocking(False)
        with suppress(BlockingIOError):
            self._stopper.connect(self.listener.getsockname())

    def accept(self) -> None:
        """Accept connections."""
        self._stopper.close()
        self.listener.listen(BACKLOG_CONNECTIONS)

    def close(self) -> None:
        """Release the port."""
        self._stopper.close()
        self.listener.close()


def _address(target: HostPort | int) -> HostPort:
    return (LOOPBACK, target) if isinstance(target, int) else target
