"""The network between a broker and its clients: a relay in this process, which can be cut.

While it is cut, packets vanish as behind a pulled cable, and nobody is told: what is connected stays connected and
carries nothing, not even the end of a connection, and who connects gets no answer. When it is healed the same
connections go on, as after a short cut in real life, and what was said meanwhile arrives late.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

HOST = "127.0.0.1"
BACKLOG = 128
CHUNK = 64 * 1024
PATIENCE = 30.0  # for the relay's thread, on a busy machine


class Network:
    """Carries what comes in at some ports of this process to a port of a broker each."""

    def __init__(self, routes: Mapping[int, int]) -> None:
        self._entrances = {Entrance(port): target for port, target in routes.items()}
        self._carried: set[asyncio.Task[None]] = set()
        self._healed = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mqplug-devbrokers network", daemon=True)
        self._thread.start()
        self._run(self._heal())

    def cut(self) -> None:
        """Carry nothing more from now on; what was passed on before has left."""
        self._run(self._cut())

    def heal(self) -> None:
        """Carry again, on the old connections and on new ones."""
        self._run(self._heal())

    def close(self) -> None:
        """End all connections, and listen no more. Closing twice is harmless."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _run(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(PATIENCE)

    async def _cut(self) -> None:
        if self._healed.is_set():
            self._healed.clear()
            for entrance in self._entrances:
                self._loop.remove_reader(entrance.listener)
                entrance.deafen()

    async def _heal(self) -> None:
        if not self._healed.is_set():
            self._healed.set()
            for entrance, target in self._entrances.items():
                entrance.hear()
                self._loop.add_reader(entrance.listener, self._accept, entrance.listener, target)

    async def _end(self) -> None:
        for entrance in self._entrances:
            self._loop.remove_reader(entrance.listener)
            entrance.close()
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    def _accept(self, listener: socket.socket, target: int) -> None:
        with suppress(OSError):  # whoever connected may be gone again
            client, _ = listener.accept()
            task = self._loop.create_task(self._carry(client, target))
            self._carried.add(task)
            task.add_done_callback(self._carried.discard)

    async def _carry(self, client: socket.socket, target: int) -> None:
        """Carry one connection until both sides have ended it, or one has broken it."""
        with client, socket.socket() as broker:
            for side in (client, broker):
                side.setblocking(False)
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await self._loop.sock_connect(broker, (HOST, target))
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(client, broker))
                    both.create_task(self._pass(broker, client))
            except* OSError:
                await self._healed.wait()  # before that the other side must not see it

    async def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass on what one side says, and in the end that it has ended."""
        while data := await self._loop.sock_recv(source, CHUNK):
            await self._healed.wait()
            await self._loop.sock_sendall(sink, data)
        await self._healed.wait()
        sink.shutdown(socket.SHUT_WR)


class Entrance:
    """A port that can be deaf: then who connects to it gets no answer, not even a refusal."""

    def __init__(self, port: int) -> None:
        self.listener = socket.create_server((HOST, port), backlog=BACKLOG)
        self.listener.setblocking(False)
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
