"""Groups whose members share each log: which messages a member may get, as which attempt, and what its acks do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import attrs

from mqplug import GroupDescription, Message, MessageId, NotAssigned
from mqplug.spi import GroupPosition
from mqplug_testing.model.logs import AnyStart, LogModel
from mqplug_testing.model.rules import Outcome, check, value_of
from mqplug_testing.model.topics import Topics, named_log

UNSEEN_LAPSES = 5  # how often a message may be taken back from a member that has fetched it for nobody


@attrs.define(eq=False)
class Item:
    """A message that was handed out: who has it, and what became of it."""

    attempt: int
    last: str  # who got it last
    holder: str | None
    taken: float = 0  # the latest time at which it was handed out; a backend may have fetched it long before
    due: float = 0  # from when on it may come again
    again: bool = False  # whether it was nacked, so that its next attempt is a higher one
    acked_by: str | None = None
    doubtful: bool = False  # whether its time may have been over when it was acked
    stored: bool = False
    departures: int = 0  # of the group when it was handed out


@attrs.define(eq=False)
class SharedLog:
    """The state of a group in a log: all before ``begin`` is acked."""

    log: LogModel
    begin: int
    items: dict[int, Item] = attrs.field(factory=dict)
    attempts: dict[int, int] = attrs.field(factory=dict)  # before a seek, after which their number may grow further

    def acked(self, row: int) -> bool:
        """Return whether a message was acked, or needs no ack."""
        return row < max(self.begin, self.log.low) or (row in self.items and self.items[row].acked_by is not None)

    def stored(self, row: int) -> bool:
        """Return whether a message is known to be stored as acked."""
        return row < max(self.begin, self.log.low) or (row in self.items and self.items[row].stored)

    @property
    def position(self) -> int:
        """The row of the group's position, if that did not pass what was removed without an ack."""
        rows = range(self.begin, self.log.end)
        return next((row for row in rows if row not in self.items or not self.items[row].stored), self.log.end)

    @property
    def mixes_keys(self) -> bool:
        """Whether messages of several keys were stored as one entry, which goes to one member as a whole."""
        entries: dict[tuple[int, ...], bytes | None] = {}
        ids = ((each.id.coordinates, each.content.key) for each in self.log.stored)
        return any(len(at) > 1 and entries.setdefault(at[:-1], key) != key for at, key in ids)

    @property
    def unacked(self) -> Iterator[int]:
        """The rows that are not acked."""
        return (row for row in range(self.log.end) if not self.acked(row))


@attrs.define(eq=False)
class Sharer:
    """An open member. ``limit`` is its ``max_processing``."""

    name: str
    topics: tuple[str, ...]
    group: SharingGroup
    limit: float | None
    since: float
    polled: bool = False
    late: int = 0
    perhaps_late: int = 0
    lost: list[Item] = attrs.field(factory=list)  # acked after another member got them


@attrs.define(eq=False)
class SharingGroup:
    """A group: its members, and how many have left."""

    name: str
    mode: str
    logs: dict[LogModel, SharedLog] = attrs.field(factory=dict)
    members: dict[str, Sharer] = attrs.field(factory=dict)
    departures: int = 0
    timed: bool = False  # whether messages may have been taken back before a member asked for them


class Sharing:
    """All groups of the shared modes, and their members."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.open: dict[str, Sharer] = {}
        self.groups: dict[str, SharingGroup] = {}

    @property
    def _by_entry(self) -> bool:
        """Whether messages that were sent together come again together, even acked ones."""
        return self._topics.able.ack_granularity != "message"

    def begins(self, topics: Sequence[str], start: AnyStart) -> dict[LogModel, int] | None:
        """Return where a start leads in each log, or None if that is not certain."""
        logs = [log for topic in topics for log in self._topics.current[topic].logs]
        if (named := named_log(start)) is not None and named not in {log.log for log in logs}:
            return None
        places = {log: log.places(start, lenient=True) for log in logs if named in {None, log.log}}
        if any(len(each.points) != 1 or each.beyond is not None for each in places.values()):
            return None
        return {log: min(places[log].points) if log in places else log.low for log in logs}

    def sought_begins(self, topics: Sequence[str], start: AnyStart) -> dict[LogModel, int] | None:
        """Return where a seek leads in each log that it moves, or None if that is not certain."""
        begins, named = self.begins(topics, start), named_log(start)
        return None if begins is None else {log: at for log, at in begins.items() if named in {None, log.log}}

    def opened(
        self,
        consumer: str,
        topics: Sequence[str],
        group: str,
        mode: str,
        begins: Mapping[LogModel, int],
        limit: float | None,
        outcome: Outcome,
        *,
        since: float,
    ) -> None:
        """Judge the opening of a member."""
        value_of(outcome, "shared")
        there = self.groups.setdefault(group, SharingGroup(group, mode))
        known = {log.log.topic for log in there.logs}  # in which partitions were added since
        for log, begin in begins.items():
            there.logs.setdefault(log, SharedLog(log, 0 if log.log.topic in known else begin))
        there.timed |= limit is not None
        self.open[consumer] = there.members[consumer] = Sharer(consumer, tuple(topics), there, limit, since)

    def closed(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``close``: its acks are stored, and what it had goes to others."""
        value_of(outcome, "close")
        sharer = self.open.pop(consumer)
        group = sharer.group
        self._store(sharer)
        del group.members[consumer]
        group.departures += 1
        for item in self._items(group):
            if item.holder == consumer:
                item.holder, item.due = None, 0

    def _items(self, group: SharingGroup) -> Iterator[Item]:
        return (item for shared in group.logs.values() for item in shared.items.values())

    def _of(self, sharer: Sharer) -> Iterator[SharedLog]:
        """Yield what a member reads; added partitions from their beginning."""
        for topic in sharer.topics:
            for log in self._topics.current[topic].logs:
                yield sharer.group.logs.setdefault(log, SharedLog(log, 0))

    # receiving ---------------------------------------------------------------------------------------------

    def must_come(self, consumer: str, now: float) -> bool:
        """Return whether a receive that waits must end with a message: it does for a lone member with work left."""
        sharer = self.open[consumer]
        if len(sharer.group.members) > 1:
            return False
        return any(self._free(sharer, shared, row, now) for shared in self._of(sharer) for row in shared.unacked)

    def _free(self, sharer: Sharer, shared: SharedLog, row: int, now: float) -> bool:
        if shared.log.deleted or self._blocked(sharer, shared, row):
            return False
        item = shared.items.get(row)
        if item is None or item.holder is None:
            return True
        return sharer.limit is not None and now > item.taken + sharer.limit

    def _blocked(self, sharer: Sharer, shared: SharedLog, row: int) -> bool:
        """Return whether an earlier message of its key may block a message."""
        if sharer.group.mode == "shared":
            return False
        key = shared.log.stored[row].content.key
        return any(shared.log.stored[each].content.key == key for each in shared.unacked if each < row)

    def received(self, consumer: str, outcome: Outcome, *, waited: bool, now: float) -> None:
        """Judge ``receive`` or ``receive_many``, whose messages are the outcome."""
        messages = value_of(outcome, "shared", "messages or none")
        self.open[consumer].polled |= bool(messages)
        if not messages:
            check(not waited, "shared", "a message", outcome)
        for message in messages:
            self._take(self.open[consumer], message, now)

    def _take(self, sharer: Sharer, message: Message, now: float) -> None:
        shared = next((each for each in self._of(sharer) if each.log.log is message.id.log), None)
        row = None if shared is None else shared.log.row(message.id)
        if shared is None or row is None:
            check(False, "id", "an id that a send returned", repr(message))
            return
        item = shared.items.get(row)
        whole = self._by_entry and item is not None and item.departures < sharer.group.departures
        unacked = row >= shared.begin and (item is None or item.acked_by is None or item.doubtful or whole)
        check(unacked, "ack", "a message that is not acked", repr(message))
        self._check_holder(sharer, shared, row, message, now)
        if sharer.group.mode == "key_shared":
            self._check_key(sharer, shared, row, message, now)
        least, most = self._attempts(sharer.group, item)
        most += shared.attempts.get(row, 0) if item is None else 0
        wanted = f"attempt {least} to {most}"
        check(least <= message.attempt <= most, "nack", wanted, f"attempt {message.attempt} of {message!r}")
        log_time = round(message.log_time.timestamp() * 1000)
        shared.log.stored[row].check_content(message, log_time)
        sharer.lost = [each for each in sharer.lost if each is not item]  # an earlier ack may be valid again
        name, departures = sharer.name, sharer.group.departures
        shared.items[row] = Item(message.attempt, name, name, now, departures=departures)

    def _check_holder(self, sharer: Sharer, shared: SharedLog, row: int, message: Message, now: float) -> None:
        item = shared.items.get(row)
        if item is None or self._by_entry:
            return
        free = item.holder is None or self._may_have_lapsed(sharer.group, item, now)
        check(free, "with-one", f"nothing that {item.holder} has", repr(message))
        check(item.due <= now, "nack", "nothing before its delay is over", repr(message))

    def _may_have_lapsed(self, group: SharingGroup, item: Item, now: float) -> bool:
        holder = group.members.get(item.holder or "")
        return holder is None or (holder.limit is not None and now >= holder.since + holder.limit)

    def _check_key(self, sharer: Sharer, shared: SharedLog, row: int, message: Message, now: float) -> None:
        if message.key is None or shared.mixes_keys:
            return
        stored = shared.log.stored
        for each in shared.unacked:
            if each == row or stored[each].content.key != message.key:
                continue
            item = shared.items.get(each)
            if item is None:
                check(each > row, "by-key", f"first {stored[each].id!r}", repr(message))
            elif item.holder is None and not self._by_entry:
                check(each > row, "by-key", f"first {stored[each].id!r}, which came back", repr(message))
            elif item.holder not in {None, sharer.name}:
                lapsed = self._may_have_lapsed(sharer.group, item, now)
                check(lapsed, "by-key", f"nothing of this key, which {item.holder} has", repr(message))

    def _attempts(self, group: SharingGroup, item: Item | None) -> tuple[int, int]:
        """Return the least and the greatest number that the next attempt may have."""
        if self._by_entry:
            return 1, sys.maxsize
        if item is None:
            return 1, 1 + group.departures + UNSEEN_LAPSES * group.timed
        left = group.departures - item.departures
        most = item.attempt + 2 + left + UNSEEN_LAPSES * group.timed
        if left and not self._topics.able.durable_delivery_count:  # the count ends with the consumer
            return 1, most
        return item.attempt + (item.again or item.holder is not None), most

    # acks --------------------------------------------------------------------------------------------------

    def _item(self, consumer: str, wanted: MessageId) -> Item | None:
        shared = next(each for each in self._of(self.open[consumer]) if each.log.log is wanted.log)
        row = shared.log.row(wanted)
        return None if row is None else shared.items.get(row)

    def _settled(self, sharer: Sharer, item: Item | None, outcome: Outcome) -> Item | None:
        """Return the message if this is the first report on it."""
        value_of(outcome, "late")
        if item is None:
            sharer.perhaps_late += 1  # a seek has ended its lease
        elif item.last != sharer.name:
            sharer.perhaps_late += 1  # a commit detects that another member has got it
        elif item.acked_by is not None or item.again:
            sharer.late += 1
        else:
            return item
        return None

    def acked(self, consumer: str, wanted: MessageId, outcome: Outcome, now: float) -> None:
        """Judge ``ack`` of a message that the consumer was given."""
        sharer, given = self.open[consumer], self._item(consumer, wanted)
        if given is not None and given.last != consumer:
            sharer.lost.append(given)
        if (item := self._settled(sharer, given, outcome)) is not None:
            item.acked_by = consumer
            item.doubtful = self._may_have_lapsed(sharer.group, item, now)
            sharer.perhaps_late += item.doubtful

    def nacked(self, consumer: str, wanted: MessageId, due: float, outcome: Outcome) -> None:
        """Judge ``nack`` of a message that the consumer was given."""
        sharer = self.open[consumer]
        if (item := self._settled(sharer, self._item(consumer, wanted), outcome)) is not None:
            item.holder, item.again, item.due = None, True, due
            sharer.group.departures += self._by_entry  # acked messages of its entry come again too

    def committed(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``commit``."""
        value_of(outcome, "close")
        sharer = self.open[consumer]
        sharer.late += len(sharer.lost)
        sharer.perhaps_late -= len(sharer.lost)
        sharer.lost.clear()
        self._store(sharer)

    def _store(self, sharer: Sharer) -> None:
        for item in self._items(sharer.group):
            item.stored |= item.acked_by == sharer.name and not item.doubtful

    def late_acks(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``late_acks``."""
        sharer = self.open[consumer]
        most = sharer.late + sharer.perhaps_late
        check(sharer.late <= value_of(outcome, "late") <= most, "late", f"{sharer.late} to {most}", outcome)

    def sought(self, consumer: str, begins: Mapping[LogModel, int], outcome: Outcome) -> None:
        """Judge ``seek``, which moves the group. A member may not have added partitions yet."""
        sharer = self.open[consumer]
        if isinstance(outcome.error, NotAssigned) and any(self._topics.current[each].grown for each in sharer.topics):
            return
        value_of(outcome, "seek")
        group = sharer.group
        for each in self.open.values():
            if each.group is group:
                each.lost.clear()  # the seek may drop acks that no commit has checked yet
        for log, begin in begins.items():
            known = group.logs.get(log, SharedLog(log, 0))
            attempts = known.attempts | {row: item.attempt for row, item in known.items.items()}
            group.logs[log] = SharedLog(log, begin, attempts=attempts)
        for member in group.members.values():  # a backend may disconnect them, and describes them a moment later
            member.polled = False

    # queries -----------------------------------------------------------------------------------------------

    def positions(self, group: str, topic: str, outcome: Outcome) -> None:
        """Judge ``positions``."""
        found: Mapping[int, GroupPosition] = value_of(outcome, "positions")
        exact = self._topics.able.ack_granularity == "message"
        for log in self._topics.current[topic].logs:
            shared, seen = self.groups[group].logs.get(log), found.get(log.log.partition)
            if shared is None or seen is None:
                continue
            point = log.point(seen.position)
            for row, each in enumerate(log.stored):
                at = each.id.coordinates
                acked = row < point or any(first <= at <= last for first, last in seen.acked)
                check(not acked or shared.acked(row), "positions", f"{each.id!r} not acked", seen)
                needed = exact and row >= log.low and shared.stored(row)
                check(acked or not needed, "positions", f"{each.id!r} acked", seen)

    def lag(self, group: str, topic: str, outcome: Outcome) -> None:
        """Judge ``lag``."""
        found: Mapping[int, int] = value_of(outcome, "lag")
        for log in self._topics.current[topic].logs:
            shared, lag = self.groups[group].logs.get(log), found[log.log.partition]
            if shared is None:
                continue
            least = sum(1 for _ in shared.unacked)
            if self._topics.able.count_exact:
                most = log.end - max(log.low, shared.position)
                check(least <= lag <= most, "lag", f"{least} to {most}", lag)
            else:
                check(lag > 0 or least == 0, "lag", f"at least {least}", lag)

    def described(self, group: str, outcome: Outcome) -> None:
        """Judge ``describe_group``: each member holds all logs that it reads."""
        found: GroupDescription = value_of(outcome, "describe-group")
        if found.members is None:
            return
        members = self.groups[group].members.values()
        check(len(found.members) <= len(members), "describe-group", f"{len(members)} members", found)
        told = sorted(sorted(map(repr, each.logs)) for each in found.members if each.logs)
        wanted = [sorted(repr(shared.log.log) for shared in self._of(each)) for each in members]
        right = all(each in wanted for each in told) and len(told) >= sum(each.polled for each in members)
        read = {topic for each in members for topic in each.topics}
        grown = any(self._topics.current[topic].grown for topic in read)  # members may not have all partitions yet
        reported = all(each.logs is not None for each in found.members)
        check(right or grown or not reported, "describe-group", wanted, found)
