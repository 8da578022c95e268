"""Stages that are mixed, batches that are not ingested as one, and numbers and attempts that are forgotten."""

from __future__ import annotations

import time
from contextlib import nullcontext

import attrs

import mqplug._client.stage
from mqplug import Bounds, Stage
from mqplug._consume.acking import Acknowledgements
from mqplug.memory import Store
from mqplug.memory._groups import Group
from mqplug.memory._producer import MemoryStage
from mqplug.memory._staging import MemoryStaging
from mqplug.spi import DiscardStaged, Ingest
from mutants.base import Mutant, Proxy
from mutants.durability import Lasting

_write, _ingest, _find, _leave = MemoryStage.write, MemoryStaging.ingest, MemoryStaging._find, Group.leave


def _append(stage, parts):
    with stage._store.changed:
        for part in parts:
            stage._store.partition(part.log).append(*part.written)
        stage._store.changed.notify_all()


class SeenWhenWritten(Mutant):
    """Stores staged messages in the log at once."""

    case = "STG-01"

    def write(self, run, timeout):
        _write(self, run, timeout)
        _append(self, self._parts[-1:])

    patches = ((MemoryStage, "write", write),)


class LastStageFirst(Mutant):
    case = "STG-02"
    patches = ((MemoryStaging, "_find", lambda staging, several: _find(staging, several[::-1])),)


def _without(column):
    """Return a write that loses a column."""

    def write(stage, run, timeout):
        _write(stage, run, timeout)
        part = stage._parts[-1]
        stage._parts[-1] = attrs.evolve(part, written=part.written._replace(**{column: [None] * len(part)}))

    return write


class StagesNoKeys(Mutant):
    case = "STG-03"
    patches = ((MemoryStage, "write", _without("keys")),)


class StagesNoTimes(Mutant):
    case = "STG-03"
    patches = ((MemoryStage, "write", _without("timestamps")),)


class TellsOnlyTheFirst(Mutant):
    case = "STG-04"

    def administer(self, connection, action):
        done = super().administer(connection, action)
        if isinstance(action, Ingest):
            placed = {log: Bounds(each.first_id, each.first_id) for log, each in done.placed.items()}
            done = attrs.evolve(done, placed=placed)
        return done


class OneStageForAll(Mutant):
    """Writes all stages into one."""

    case = "STG-05"

    def write(self, run, timeout):
        self._parts = self._store.__dict__.setdefault("parts", self._parts)
        _write(self, run, timeout)

    patches = ((MemoryStage, "write", write),)


class KeepsWhatWasLeft(Mutant):
    """Stores the messages of a discarded stage."""

    case = "STG-06"
    patches = ((MemoryStage, "discard", lambda stage: _append(stage, stage._parts)),)


class DiscardsNothing(Mutant):
    case = "STG-07"

    def administer(self, connection, action):
        return True if isinstance(action, DiscardStaged) else super().administer(connection, action)


class StagesWhatIsTooLarge(Mutant):
    case = "STG-08"
    patches = ((Stage, "_check", lambda stage, columns: None),)


class StagesWhenClosed(Mutant):
    case = "STG-09"
    patches = ((Stage, "_use", lambda stage, operation: nullcontext()),)


class ForgetsNumbers(Mutant):
    """Ingests a batch again that was ingested under the same number."""

    case = "STG-10"

    def ingest(self, wanted):
        self._last.clear()
        return _ingest(self, wanted)

    patches = ((MemoryStaging, "ingest", ingest),)


class KnowsTheLastNumber(Mutant):
    """Remembers only the last number, and ingests earlier ones again."""

    case = "STG-10"

    def ingest(self, wanted):
        if wanted.number < self._last.get(wanted.writer, (0,))[0]:
            del self._last[wanted.writer]
        return _ingest(self, wanted)

    patches = ((MemoryStaging, "ingest", ingest),)


class OneWriterForAll(Mutant):
    case = "STG-10"
    patches = ((MemoryStaging, "ingest", lambda staging, wanted: _ingest(staging, attrs.evolve(wanted, writer="any"))),)


class KeepsWhatIsRepeated(Mutant):
    case = "STG-10"

    def ingest(self, wanted):
        kept = dict(self._waiting)
        done = _ingest(self, wanted)
        if done.repeated:
            self._waiting = kept
        return done

    patches = ((MemoryStaging, "ingest", ingest),)


class NothingHasNoNumber(Mutant):
    """Does not use up the number of a batch without messages."""

    case = "STG-11"

    def ingest(self, wanted):
        known = dict(self._last)
        done = _ingest(self, wanted)
        if not done.messages:
            self._last = known
        return done

    patches = ((MemoryStaging, "ingest", ingest),)


class TakesInWhatIsLeft(Mutant):
    """Leaves missing stages out of a batch."""

    case = "STG-12"

    def find(self, several):
        return _find(self, [each for each in several if each.detail in self._waiting])

    patches = ((MemoryStaging, "_find", find),)


class FailureUsesTheNumber(Mutant):
    case = "STG-12"

    def ingest(self, wanted):
        try:
            return _ingest(self, wanted)
        except Exception:
            self._last[wanted.writer] = wanted.number, None
            raise

    patches = ((MemoryStaging, "ingest", ingest),)


class TakesInOneByOne(Mutant):
    """Ingests stages one by one, so that a reader sees a part of a batch."""

    case = "STG-13"

    def administer(self, connection, action):
        if not isinstance(action, Ingest) or len(action.staged) < 2:
            return super().administer(connection, action)
        for number, each in enumerate(action.staged):
            done = super().administer(connection, Ingest((each,), f"{action.writer}-{number}", action.number))
            time.sleep(0.005)
        return done


class CountsFromAnywhere(Mutant):
    """Accepts any number."""

    case = "STG-14"
    patches = ((mqplug._client.stage, "check_number", lambda number: number),)


class TakesInWhatIsAnothers(Mutant):
    """Ignores stages that were written for another store."""

    case = "STG-14"

    def find(self, several):
        return _find(self, [each for each in several if (each.backend, each.cluster) == ("memory", self._store)])

    patches = ((MemoryStaging, "_find", find),)


class NumbersGoWithTheClient(Mutant):
    case = "STG-15"

    class Connection(Proxy):
        def close(self, timeout):
            self.inner.store.staging._last.clear()
            self.inner.close(timeout)


class StagesAreGoneAfterARestart(Mutant):
    case = "STG-16"

    def hooks(self, connect):
        with connect() as client:
            staging = client.unwrap(Store).staging
        return {**super().hooks(connect), "restart": lambda: self.lose(staging)}

    def lose(self, staging):
        staging._waiting.clear()


class ForgetsNumbersInAnOutage(Lasting):
    case = "STG-17"

    def come_up(self):
        self.store.staging._last.clear()


class ForgetsAttempts(Mutant):
    """Forgets attempts when the last member leaves."""

    case = "ACK-22"

    def leave(self, member):
        _leave(self, member)
        if len(self.roster) < 2:
            forget_attempts(self)

    patches = ((Group, "leave", leave),)


class ForgetsAttemptsInAnOutage(Lasting):
    case = "ACK-23"

    def come_up(self):
        for group in self.store._groups.values():
            forget_attempts(group)


def forget_attempts(group):
    """Keep a group's positions, and forget its attempts."""
    group._positions = group.positions(group._positions)
    group._tables.clear()


class TriesOnceMore(Mutant):
    """Delivers a message again after its last attempt."""

    case = "ACK-25"
    patches = ((Acknowledgements, "bury_spent", lambda settler, held, batch: batch),)
