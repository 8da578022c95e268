"""The bell that ends waits."""

from __future__ import annotations

import threading

from mqplug.spi import Bell


def test_a_bell_is_heard_once() -> None:
    """However often it rings before a wait begins, it ends one wait; the next wait lasts its full time."""
    bell = Bell()
    assert not bell.wait(0)
    for _ in range(3):
        bell.ring()
    assert bell.wait(10)
    assert not bell.wait(0)


def test_a_bell_ends_the_wait_of_another_thread() -> None:
    """Many threads may ring at once: a waiting thread continues, and no call fails."""
    bell, heard = Bell(), threading.Event()
    waiting = threading.Thread(target=lambda: heard.set() if bell.wait(10) else None)
    waiting.start()
    ringing = [threading.Thread(target=lambda: [bell.ring() for _ in range(1000)]) for _ in range(4)]
    for each in ringing:
        each.start()
    for each in [*ringing, waiting]:
        each.join(10)
    assert heard.is_set()
