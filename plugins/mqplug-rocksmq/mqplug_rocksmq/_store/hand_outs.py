"""Hand-outs of a shared log on disk, so that delivery counts survive the death of all processes.

Each hand-out is a note. It goes to the store's journal before its messages go to the member, and is dropped when they
were handed out again, or when the acks of all of them are stored. Notes are not synced: the operating system has them,
so they outlive their process.
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
    note_value,
    notes_key,
    numbered_key,
    read_note,
    span_value,
    spans_of,
)

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.rocks import Changes
    from mqplug_rocksmq._store.hand_out_journal import HandOutJournal
    from mqplug_rocksmq._store.store import Store
    from mqplug_rocksmq._store.topics import AddChanges

RECLAIM_GRACE_S: Final = 1.0  # in which members in other processes find a new owner and report what they hold


class _StoredNote:
    """A note on disk, the number of messages for which it is the last one, and whether any others were acked."""

    __slots__ = ("acked", "key", "left")

    def __init__(self, key: bytes, left: int) -> None:
        self.key = key
        self.left = left
        self.acked = False


class HandOuts:
    """The hand-out notes of one log and group. Not thread-safe."""

    def __init__(self, store: Store, log: int, group: str) -> None:
        self._journal: HandOutJournal = store.journal
        self._opened = store.opened
        self._log = log
        self._group = group
        self._keys = notes_key(log, group)
        self._next = 0
        self._last: dict[int, _StoredNote] = {}  # the last note of each message, by offset
        self._over: list[bytes] = []  # the keys of notes that no longer count once the acks are stored

    def recall(self) -> dict[Numbers, Recalled]:
        """Return the messages that stored notes say were handed out or put off."""
        now, grace = clock.now_ms(), max(0.0, self._opened + RECLAIM_GRACE_S - monotonic())
        known: dict[Numbers, Recalled] = {}
        for note in map(read_note, self._journal.notes(self._keys)):
            for span in note.spans:
                wait = max(0, span.due - now) / 1000 if span.due else grace * note.elsewhere
                recalled = Recalled(span.attempts, wait)
                known |= dict.fromkeys([(offset,) for offset in range(span.first, span.first + span.size)], recalled)
        return known

    def renew(self, known: Mapping[Numbers, Recalled]) -> None:
        """Replace all notes by one."""
        now = clock.now_ms()
        later = [(at[0], each.attempts, now + _ms(each.delay)) for at, each in sorted(known.items())]
        forget = self.forgotten()
        (key, _), value = self._next_key([offset for offset, _, _ in later]), note_value(HandOutNote(spans_of(later)))

        def plan(changes: Changes) -> None:
            forget(changes)
            if later:
                changes.put(key, value)

        self._journal.write(plan)

    def take(self, leases: Sequence[Lease], *, elsewhere: bool) -> None:
        """Note that these messages go to a member, which may be in another process."""
        offsets = [at[0] for at, _ in leases]
        first, count, attempts = offsets[0], len(offsets), leases[0].attempt
        if count == 1 or (offsets[-1] - first == count - 1 and all(each == attempts for _, each in leases)):
            value = span_value(first, count, attempts, elsewhere=elsewhere)
        else:
            value = note_value(HandOutNote(spans_of((at[0], attempt, 0) for at, attempt in leases), elsewhere))
        key, replaced = self._next_key(offsets)
        self._journal.note(key, value, replaced)

    def put_off(self, returned: Iterable[tuple[int, int, float]]) -> None:
        """Note that messages came back: (offset, delivery count, seconds until the next delivery) of each."""
        now = clock.now_ms()
        later = [(offset, attempts, now + _ms(delay)) for offset, attempts, delay in sorted(returned)]
        key, replaced = self._next_key([offset for offset, _, _ in later])
        self._journal.note(key, note_value(HandOutNote(spans_of(later))), replaced)

    def _next_key(self, offsets: Sequence[int]) -> tuple[bytes, list[bytes]]:
        """Return the key of the next note, which is the last one of these messages from now on.

        Return also the keys of the notes that it replaces.
        """
        replaced: list[bytes] = []
        if not self._last.keys().isdisjoint(offsets):
            for note in self._taken_out(offsets):
                (self._over if note.acked else replaced).append(note.key)
        key, self._next = numbered_key(self._keys, self._next), self._next + 1
        note = _StoredNote(key, len(offsets))
        for offset in offsets:
            self._last[offset] = note
        return key, replaced

    # notes that no longer count ------------------------------------------------------------------------------

    def acked(self, offsets: Iterable[int]) -> None:
        """Forget messages that were acked. Their notes count until the acks are stored."""
        self._over += [note.key for note in self._taken_out(offsets, acked=True)]

    def take_over(self) -> list[bytes]:
        """Return the keys of the notes that no longer count once the acks so far are stored."""
        over, self._over = self._over, []
        return over

    def give_back(self, keys: Iterable[bytes]) -> None:
        """Keep notes until the next acks are stored: these were not."""
        self._over += keys

    def _taken_out(self, offsets: Iterable[int], *, acked: bool = False) -> list[_StoredNote]:
        """Take out messages. Return the notes that are left without any."""
        empty = []
        for note in map(self._last.pop, offsets, repeat(None)):
            if note is not None:
                note.left -= 1
                note.acked |= acked
                if not note.left:
                    empty.append(note)
        return empty

    def forgotten(self) -> AddChanges:
        """Return the change that removes all notes, for the next write."""
        self._last, self._over = {}, []
        return self._journal.forget(self._keys)


def forget_hand_outs(store: Store, log: int, group: str) -> AddChanges:
    """Return the change that removes all notes of a log and group."""
    return store.journal.forget(notes_key(log, group))


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
