"""Hand-outs of a shared log on disk, so that delivery counts survive the death of all processes.

Each hand-out is a note. It is written before its messages go to the member, and dropped when all of them are acked or
were handed out again. Notes are not synced: the operating system has them, so they outlive their process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from time import monotonic
from typing import TYPE_CHECKING, Final

from mqplug.spi import Numbers
from mqplug.spi.groups import Lease, Recalled
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._format.hand_out_notes import (
    HandOutNote,
    HandOutSpan,
    note_value,
    notes_key,
    numbered_key,
    read_note,
    spans_of,
)
from mqplug_rocksmq._format.keys import after_prefix

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.rocks import Changes
    from mqplug_rocksmq._store.store import Store
    from mqplug_rocksmq._store.topics import AddChanges

RECLAIM_GRACE_S: Final = 1.0  # in which members in other processes find a new owner and report what they hold


class _StoredNote:
    """A note on disk, and the number of messages for which it is the last one."""

    __slots__ = ("key", "left")

    def __init__(self, key: bytes, left: int) -> None:
        self.key = key
        self.left = left


class HandOuts:
    """The hand-out notes of one log and group. Not thread-safe."""

    def __init__(self, store: Store, log: int, group: str) -> None:
        self._groups = store.groups
        self._opened = store.opened
        self._log = log
        self._group = group
        self._keys = notes_key(log, group)
        self._next = 0
        self._last: dict[int, _StoredNote] = {}  # the last note of each message, by offset
        self._over: list[bytes] = []  # the keys of notes that no longer count

    def recall(self) -> dict[Numbers, Recalled]:
        """Return the messages that stored notes say were handed out or put off."""
        now, grace = clock.now_ms(), max(0.0, self._opened + RECLAIM_GRACE_S - monotonic())
        known: dict[Numbers, Recalled] = {}
        for note in map(read_note, self._groups.notes(self._log, self._group)):
            for span in note.spans:
                wait = max(0, span.due - now) / 1000 if span.due else grace * note.elsewhere
                recalled = Recalled(span.attempts, wait)
                known |= dict.fromkeys([(offset,) for offset in range(span.first, span.first + span.size)], recalled)
        return known

    def renew(self, known: Mapping[Numbers, Recalled]) -> None:
        """Replace all notes by one."""
        now = clock.now_ms()
        later = [(at[0], each.attempts, now + _ms(each.delay)) for at, each in sorted(known.items())]
        self._write([offset for offset, _, _ in later], HandOutNote(spans_of(later)), self.forgotten())

    def take(self, leases: Sequence[Lease], *, elsewhere: bool) -> None:
        """Note that these messages go to a member, which may be in another process."""
        offsets = [at[0] for at, _ in leases]
        attempts = {attempt for _, attempt in leases}
        if len(attempts) == 1 and offsets[-1] - offsets[0] + 1 == len(offsets):
            spans: tuple[HandOutSpan, ...] = (HandOutSpan(offsets[0], len(offsets), *attempts),)
        else:
            spans = spans_of((at[0], attempt, 0) for at, attempt in leases)
        self._write(offsets, HandOutNote(spans, elsewhere))

    def put_off(self, returned: Iterable[tuple[int, int, float]]) -> None:
        """Note that messages came back: (offset, delivery count, seconds until the next delivery) of each."""
        now = clock.now_ms()
        later = [(offset, attempts, now + _ms(delay)) for offset, attempts, delay in sorted(returned)]
        self._write([offset for offset, _, _ in later], HandOutNote(spans_of(later)))

    def _write(self, offsets: Sequence[int], note: HandOutNote, also: AddChanges | None = None) -> None:
        self.drop(offsets)
        key, self._next = numbered_key(self._keys, self._next), self._next + 1
        self._last.update(dict.fromkeys(offsets, _StoredNote(key, len(offsets))))
        value, over, self._over = note_value(note), self._over, []

        def plan(changes: Changes) -> None:
            if also:
                also(changes)
            for each in over:
                changes.delete(each)
            if offsets:
                changes.put(key, value)

        self._groups.write_unawaited(plan)

    # notes that no longer count ------------------------------------------------------------------------------

    def drop(self, offsets: Iterable[int]) -> None:
        """Forget messages. A note without any is removed with the next write."""
        for note in map(self._last.pop, offsets, repeat(None)):
            if note is not None:
                note.left -= 1
                if not note.left:
                    self._over.append(note.key)

    def finished(self) -> AddChanges:
        """Return the change that removes the notes without messages, for the next write."""
        over, self._over = self._over, []

        def remove(changes: Changes) -> None:
            for key in over:
                changes.delete(key)

        return remove

    def forgotten(self) -> AddChanges:
        """Return the change that removes all notes, for the next write."""
        self._last, self._over = {}, []
        return forget_hand_outs(self._log, self._group)


def forget_hand_outs(log: int, group: str) -> AddChanges:
    """Return the change that removes all notes of a log and group."""
    prefix = notes_key(log, group)
    return lambda changes: changes.delete_range(prefix, after_prefix(prefix))


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
