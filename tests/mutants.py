"""Deliberately broken memory backends: each is wrong in one place, and says which case has to notice."""

from __future__ import annotations

import contextlib
import operator
import re
import threading
import time
import zlib

import attrs

from mqplug import (
    Client,
    Consumer,
    Log,
    MessageId,
    Position,
    PositionLost,
    Producer,
    TopicNotFound,
    _consumer,
    _deadline,
    _ids,
    _record,
    _text,
    memory,
)
from mqplug._gate import Gate
from mqplug._position import AtTime, Latest
from mqplug.spi import (
    Batch,
    Capabilities,
    CreateTopic,
    DescribeGroup,
    DescribeTopic,
    GroupPosition,
    ListColumns,
    TopicInfo,
    hookimpl,
)

COLUMNS = ("coordinates", "values", "keys", "headers", "timestamps", "log_times")


class Proxy:
    """Another object, but for what a subclass says."""

    def __init__(self, inner, mutant):
        self.inner = inner
        self.mutant = mutant

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Mutant:
    """The memory backend as a plugin object whose parts can be replaced. This one is sound."""

    case: str
    scale = 0.05  # a mutant that keeps messages back is found out after a second and a half
    Connection = Consumer = Producer = Proxy

    def __init__(self, name):
        self.name = name
        self.consumers = []

    @hookimpl
    def mqplug_describe(self):
        sound = memory.mqplug_describe()
        return attrs.evolve(sound, name=self.name, capabilities=self.capabilities(sound.capabilities))

    @hookimpl
    def mqplug_connect(self, settings):
        inner = memory.mqplug_connect(settings)
        inner.capabilities = self.capabilities(inner.capabilities)
        return self.Connection(inner, self)

    @hookimpl
    def mqplug_open_producer(self, connection, options):
        return self.Producer(memory.mqplug_open_producer(connection, options), self)

    @hookimpl
    def mqplug_open_consumer(self, connection, options, listener):
        inner = self.open(connection, options, listener)
        self.consumers.append(inner)
        return self.Consumer(inner, self)

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        return {log: self.start(start, each) for log, each in connection.resolve(start, logs).items()}

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        return memory.mqplug_move_group(connection, group, positions)

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        return {log: self.marks(each) for log, each in connection.watermarks(logs, self.since(since or {})).items()}

    @hookimpl
    def mqplug_bounds(self, connection, logs):
        return {log: self.bounds(each) for log, each in connection.bounds(logs).items()}

    @hookimpl
    def mqplug_administer(self, connection, action):
        return self.administer(connection, action)

    def capabilities(self, sound: Capabilities) -> Capabilities:
        return sound

    def open(self, connection, options, listener):
        return memory.mqplug_open_consumer(connection, options, listener)

    def start(self, start, position):
        return position

    def since(self, positions):
        return positions

    def marks(self, marks):
        return marks

    def bounds(self, bounds):
        return bounds

    def administer(self, connection, action):
        return memory.mqplug_administer(connection, action)


def moved(position: Position, by: int) -> Position:
    """A position so many messages on."""
    return Position(position.log, (position.coordinates[0] + by,))


def rebuilt(batch: Batch, **columns) -> Batch:
    """A batch with some of its columns replaced."""
    made = [list(columns.get(name, getattr(batch, name))) for name in COLUMNS]
    return Batch(batch.log, batch.next_position, len(made[0]), ListColumns(*made))


# reading ---------------------------------------------------------------------------------------------------


class Reading(Proxy):
    """A consumer whose batches are changed on their way."""

    def poll(self, most, timeout):
        return [self.change(batch) for batch in self.inner.poll(most, timeout)]


class DropsEveryTenth(Mutant):
    case = "ORD-01"

    class Consumer(Reading):
        def change(self, batch):
            rows = [row for row, (offset,) in enumerate(batch.coordinates) if offset % 10 != 9]
            return batch.take(rows, batch.next_position)


class SwapsNeighbours(Mutant):
    case = "ORD-06"

    class Consumer(Reading):
        def change(self, batch):
            rows = list(range(len(batch)))
            rows[:2] = rows[:2][::-1]
            return batch.take(rows, batch.next_position)


class RepeatsAtBatchEnds(Mutant):
    case = "ORD-07"

    class Consumer(Reading):
        last = None

        def change(self, batch):
            before, self.last = self.last, batch[-1:] if len(batch) else self.last
            if before is None or before.log is not batch.log:
                return batch
            return rebuilt(batch, **{name: [*getattr(before, name), *getattr(batch, name)] for name in COLUMNS})


class NoneBecomesEmpty(Mutant):
    case = "HP-02"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[value or b"" for value in batch.values])


class KeepsPrefetchAtSeek(Mutant):
    case = "SEEK-13"

    class Consumer(Proxy):
        ahead = ()

        def poll(self, most, timeout):
            now, self.ahead = self.ahead or self.inner.poll(5, timeout), self.inner.poll(5, 0)
            return now


class NeverWakes(Mutant):
    case = "CLS-03"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            end = time.monotonic() + 3
            while not (found := self.inner.poll(most, 0)) and time.monotonic() < end:
                time.sleep(0.01)
            return found


class LooksOnlyNowAndThen(Mutant):
    case = "CON-06"
    scale = 1.0

    class Consumer(Proxy):
        def poll(self, most, timeout):
            found = self.inner.poll(most, 0)
            time.sleep(0 if found else timeout)
            return found or self.inner.poll(most, 0)


class SkipsWhatWasTrimmed(Mutant):
    case = "WM-19"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except PositionLost as error:
                self.inner.seek({error.log: error.low}, 1)
                return self.inner.poll(most, timeout)


class OtherIdsThanSent(Mutant):
    case = "ID-08"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, coordinates=[(offset + 1,) for (offset,) in batch.coordinates])


class TakesItsTime(Mutant):
    case = "CON-05"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            time.sleep(0.7)
            return self.inner.poll(most, timeout)


# seeking ---------------------------------------------------------------------------------------------------


class ExclusiveSkipsOne(Mutant):
    case = "SEEK-06"

    class Connection(Proxy):
        def after(self, message_id):
            return moved(self.inner.after(message_id), 1)


class ExclusiveIsInclusive(Mutant):
    case = "SEEK-11"

    class Connection(Proxy):
        def after(self, message_id):
            return moved(self.inner.after(message_id), -1)


class LatestDeliversLast(Mutant):
    case = "SEEK-03"

    def start(self, start, position):
        return moved(position, -1) if isinstance(start, Latest) and position.coordinates > (0,) else position


class LatestOnEmptySkips(Mutant):
    case = "CON-03"

    def start(self, start, position):
        return moved(position, 1) if isinstance(start, Latest) and position.coordinates == (0,) else position


class TimeIsExclusive(Mutant):
    case = "SEEK-20"

    def start(self, start, position):
        return moved(position, 1) if isinstance(start, AtTime) else position


class LastIsOneShort(Mutant):
    case = "SEEK-34"

    def start(self, start, position):
        return moved(position, 1) if type(start).__name__ == "Last" and start.count else position


class SeeksLate(Mutant):
    case = "SEEK-16"

    class Consumer(Proxy):
        later = None

        def poll(self, most, timeout):
            found = self.inner.poll(most, timeout)
            if found and self.later:
                self.inner.seek(*self.later)
                self.later = None
            return found

        def seek(self, *where):
            self.later = where


class SeekMovesEveryPartition(Mutant):
    case = "SEEK-25"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            self.inner.seek(positions, timeout)
            for log in self.inner._offsets:
                self.inner._offsets[log] = next(iter(positions.values())).coordinates[0]


class SeekMovesOthers(Mutant):
    case = "SEEK-29"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.inner.poll(2, timeout)  # or all would have been fetched before

        def seek(self, positions, timeout):
            for each in self.mutant.consumers:
                each._offsets.update({log: at.coordinates[0] for log, at in positions.items() if log in each._offsets})
            self.inner.seek(positions, timeout)


class SeekForgetsTheGroup(Mutant):
    case = "SEEK-30"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            self.inner._offsets.update({log: at.coordinates[0] for log, at in positions.items()})


# watermarks ------------------------------------------------------------------------------------------------


class EmptyHasOne(Mutant):
    case = "WM-01"

    def marks(self, marks):
        empty = marks.low == marks.high
        return attrs.evolve(marks, high=moved(marks.high, 1)) if empty else marks


class HighIsShort(Mutant):
    case = "WM-06"

    def marks(self, marks):
        return attrs.evolve(marks, high=moved(marks.high, -1)) if marks.low != marks.high else marks


class LowStays(Mutant):
    case = "WM-05"

    def marks(self, marks):
        return attrs.evolve(marks, low=Position(marks.low.log, (0,)))


class AskingMoves(Mutant):
    case = "WM-08"

    def marks(self, marks):
        for each in self.consumers:
            if marks.high.log in each._offsets:
                each._offsets[marks.high.log] = marks.high.coordinates[0]
        return marks


class BoundIsNext(Mutant):
    case = "WM-07"

    def bounds(self, bounds):
        last = bounds.last_id
        return attrs.evolve(bounds, last_id=MessageId(last.log, (last.coordinates[0] + 1,))) if last else bounds


class CountIsGuessed(Mutant):
    case = "WM-18"

    def marks(self, marks):
        return attrs.evolve(marks, count=marks.count + 1)


class MissingTopicIsEmpty(Mutant):
    case = "WM-13"

    def administer(self, connection, action):
        try:
            return super().administer(connection, action)
        except TopicNotFound:
            return super().administer(connection, CreateTopic(action.topic))


# acks ------------------------------------------------------------------------------------------------------


class AcksNothing(Mutant):
    case = "ACK-01"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            pass


class AcksAtDelivery(Mutant):
    case = "ACK-02"

    class Consumer(Reading):
        def change(self, batch):
            self.inner.commit({batch.log: GroupPosition(batch.next_position)}, 1)
            return batch


class AcksCumulatively(Mutant):
    case = "ACK-03"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            ends = {log: at.acked[-1][1][0] + 1 for log, at in positions.items() if at.acked}
            through = {log: GroupPosition(Position(log, (ends[log],))) for log in ends}
            self.inner.commit({**positions, **through}, timeout)


class ForgetsRanges(Mutant):
    case = "ACK-03"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            self.inner.commit({log: GroupPosition(at.position) for log, at in positions.items()}, timeout)


class CommittedIsHigh(Mutant):
    case = "ACK-13"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if isinstance(action, DescribeGroup):
            return {log: GroupPosition(connection.resolve(Latest(), [log])[log]) for log in found}
        return found


class Everybody(Mutant):
    """Every member of a group reads every partition."""

    case = "GRP-02"

    def open(self, connection, options, listener):
        inner = super().open(connection, options, listener)
        if inner._seat is not None:
            inner._seat = Greedy(inner._seat, self)
        return inner


class Greedy(Proxy):
    """A place in a group that takes all there is."""

    def changes(self):
        taken = sorted(self.inner.wanted - self.inner.held, key=repr)
        self.inner.held |= set(taken)
        return [], taken


class NeverLeaves(Mutant):
    case = "GRP-05"

    class Consumer(Proxy):
        def close(self, timeout):
            pass


class TellsTwice(Mutant):
    case = "GRP-07"

    def open(self, connection, options, listener):
        return super().open(connection, options, Teller(listener, self))


class Teller(Proxy):
    """A listener that hears of each assignment twice."""

    def assigned(self, positions):
        self.inner.assigned(positions)
        self.inner.assigned(positions)


# sending ---------------------------------------------------------------------------------------------------


class Sending(Proxy):
    """A producer whose records are changed on their way."""

    def send(self, sendings):
        for sending in sendings:
            sending.record = self.change(sending.record)
        self.inner.send(sendings)


class DropsAHeader(Mutant):
    case = "HP-05"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, headers=record.headers[1:])


class SortsHeaders(Mutant):
    case = "HP-05"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, headers=tuple(sorted(record.headers, key=str)))


class EmptyKeyIsNone(Mutant):
    case = "HP-03"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, key=record.key or None)


class IgnoresTimestamps(Mutant):
    case = "PRO-21"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, timestamp=None)


class StoresTwice(Mutant):
    case = "ORD-04"

    class Producer(Proxy):
        def send(self, sendings):
            self.inner.send(sendings)
            if len(sendings) == 1:
                self.inner.send(sendings)


class ClaimsToStore(Mutant):
    case = "PRO-10"

    class Producer(Proxy):
        def send(self, sendings):
            partition = self.inner._store.topic(sendings[0].topic)[sendings[0].partition]
            if partition.high < 400:
                self.inner.send(sendings)
            else:
                for sending in sendings:
                    sending.stored(partition.log, (partition.high,))


class NextPartition(Mutant):
    case = "KEY-01"

    class Producer(Proxy):
        def send(self, sendings):
            for sending in sendings:
                count = len(self.inner._store.topic(sending.topic))
                sending.partition = (sending.partition + (sending.record.key is not None)) % count
            self.inner.send(sendings)


class MixesResults(Mutant):
    case = "PRO-05"

    class Producer(Proxy):
        def send(self, sendings):
            recorded = [Recorded(each, self.mutant) for each in sendings]
            self.inner.send(recorded)
            for sending, other in zip(sendings, recorded[::-1], strict=True):
                sending.stored(*other.outcome)


class Recorded(Proxy):
    """A record on its way that keeps its outcome to itself."""

    def stored(self, *outcome):
        self.outcome = outcome


class StoresInReverse(Mutant):
    case = "ORD-08"

    class Producer(Proxy):
        def send(self, sendings):
            self.inner.send(sendings[::-1])


# ids and topics --------------------------------------------------------------------------------------------


class IdsStartAgain(Mutant):
    case = "ID-10"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if not isinstance(action, CreateTopic | DescribeTopic):
            return found
        for partition in connection.store.topic(action.topic):
            log = partition.log
            partition.log = type(log)(log.backend, log.cluster, log.topic, log.partition, "same")
        return TopicInfo(found.name, tuple(each.log for each in connection.store.topic(action.topic)))


class PrefixesLeak(Mutant):
    case = "TOP-10"

    def administer(self, connection, action):
        if isinstance(action, DescribeTopic):
            like = [name for name in connection.store.names() if action.topic.startswith(name)]
            if like:
                return super().administer(connection, DescribeTopic(min(like)))
        return super().administer(connection, action)


class LeavesAThread(Mutant):
    case = "LIF-02"

    def open(self, connection, options, listener):
        threading.Thread(target=time.sleep, args=(4,), daemon=True).start()
        return super().open(connection, options, listener)


class LiesAboutTrim(Mutant):
    case = "WM-05"

    def administer(self, connection, action):
        return True if type(action).__name__ == "Trim" else super().administer(connection, action)


MUTANTS = [kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Mutant)][1:]


# The cases about ids and records are about the core: (case, object, attribute, what is put in its place).
CORE_MUTANTS = [
    ("ID-01", _text, "_read_number", lambda field: int(float(field)) + 1),
    ("ID-02", _ids, "decode", lambda kind, text: (Log("b", "c", "t", 0), (len(text),), ())),
    ("ID-04", MessageId, "__hash__", object.__hash__),
    ("ID-05", MessageId, "__lt__", lambda one, other: one.coordinates <= other.coordinates),
    ("ID-07", _ids, "_same_log", lambda mine, other, coordinates: coordinates),
    ("ID-09", MessageId, "__lt__", lambda one, other: one.coordinates < getattr(other, "coordinates", (0,))),
    ("ID-11", _text, "crc32", zlib.adler32),
    ("ID-13", _text, "_PLAIN", re.compile("[ -}]*")),
    ("ID-14", MessageId, "__setattr__", object.__setattr__),
    ("ID-15", MessageId, "__lt__", lambda one, other: all(map(operator.lt, one.coordinates, other.coordinates))),
    ("ID-16", MessageId, "__eq__", lambda one, other: str(one) == str(other)),
    ("HP-11", _record, "check_headers", lambda headers: ()),
    ("HP-14", _record, "_bytes", lambda what, value: value if value is None else bytes(value)),
    ("HP-15", _record, "_bytes", lambda what, value: value.encode() if isinstance(value, str) else value),
    ("LIF-04", Client, "health", lambda client, timeout=30: None),
    ("PRO-08", Producer, "send_many", lambda producer, records: records[0]),
    ("SEEK-26", _consumer, "check_log", lambda log, logs: None),
    ("SEEK-27", Consumer, "_seek_positions", lambda consumer, start, partition, deadline: {}),
    ("CC-02", Gate, "receiving", contextlib.nullcontext),
    ("TO-02", _deadline, "check_timeout", lambda timeout: None),
]
