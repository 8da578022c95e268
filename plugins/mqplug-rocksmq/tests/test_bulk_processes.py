"""Batches that one process stages and another ingests, and kills in between."""

from __future__ import annotations

import contextlib
import pickle
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from bulk_loads import read_all, records, stage_all, waiting
from rocksmq_stores import OpenStore, line, nightly, python, serving, values
from store_seam import StoreConnection, check_store, unfinished_ingest
from test_limits import in_a_namespace

import mqplug
from mqplug import Record

# kills at each step ---------------------------------------------------------------------------------------------

STEPS = """
from bulk_loads import staged, take
from mqplug_rocksmq._store.ingest import Ingestion
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._store.staging import StagingDirectory

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def linked(pages, files):
    for file in files:
        os.link(file, str(file) + ".kept")
    took_in(pages, files)
    for file in files:
        os.rename(str(file) + ".kept", file)  # as if it was not removed yet
    die()

took_in = Pages.ingest
step, sync = sys.argv[2:]
store = Store(path, store_settings(sync=sync))
log = new_log(store)
put(store, log, b"before")
several = [staged(store, [b"a", b"b"], [b"c"]), staged(store, [b"d"])]
if step == "linked":
    Pages.ingest = linked
else:
    setattr(*{
        "staged": (Ingestion, "_check"), "intended": (Ingestion, "_ingest_files"), "ingesting": (Pages, "ingest"),
        "ingested": (Ingestion, "_place"), "placed": (StagingDirectory, "remove"),
    }[step], die)
take(store, *several)
"""


@pytest.mark.parametrize("sync", ["always", *nightly("os")])
@pytest.mark.parametrize(
    ("step", "kept"),
    [("staged", False), *((step, True) for step in ("intended", "ingesting", "linked", "ingested", "placed"))],
)
def test_killed(path: Path, open_store: OpenStore, step: str, kept: bool, sync: str) -> None:
    """Whenever the owner is killed, the next one has all of a batch or none of it, and never twice."""
    with python(STEPS, path, step, sync) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert check_store(path).sound
    store = open_store(sync=sync)
    log = store.topics.get("orders").logs[0]
    batch = [b"a", b"b", b"c", b"d"]
    assert values(store, log) == [b"before", *(batch if kept else [])]
    assert unfinished_ingest(store) is None
    assert waiting(path) == ([] if kept else ["1.sst", "2.sst"])
    assert (store.ingestion.ingest("job", 0, []).placed == {log: (1, 5)}) == kept
    store.close(10)
    assert check_store(path).sound


def test_killed_and_the_files_are_gone(path: Path, open_store: OpenStore) -> None:
    """A begun batch whose files are gone is given up; the store opens, and the batch can be staged again."""
    with python(STEPS, path, "ingesting", "os") as process:
        assert process.wait(30) == -signal.SIGKILL
    (path / "staging" / "2.sst").unlink()
    store = open_store(sync="os")
    assert values(store, 0) == [b"before"]
    assert not store.ingestion.ingest("job", 0, []).repeated


INGESTER = """
from bulk_loads import records, stage_all
with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
    mq.create_topic("orders", partitions=2, exist_ok=True)
    for number in range(int(sys.argv[2]), 100_000):
        mq.ingest([stage_all(mq, "orders", records(10, 20 * number + part)) for part in (0, 10)],
                  writer="job", number=number)
        print(number, flush=True)
"""


@pytest.mark.parametrize("lives", [2, *nightly(6)])
def test_killed_at_any_time(path: Path, lives: int) -> None:
    """A writer that is killed again and again, and resumes with its unconfirmed batch, writes each batch once."""
    following = 0
    for life in range(lives):
        with python(INGESTER, path, following) as process:
            following = max(following, int(line(process)) + 1)
            time.sleep(random.Random(life).random() * 0.3)
            process.kill()
            assert process.stdout is not None
            following = max([following, *(int(said) + 1 for said in process.stdout.read().split())])
    assert check_store(path).sound
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        found = sorted(int(value or b"") for part in read_all(mq, "orders").values() for value in part)
    assert found == list(range(len(found)))
    assert len(found) in {20 * following, 20 * following + 20}


# through the owner of a store ----------------------------------------------------------------------------------


def test_a_guest(path: Path) -> None:
    """A process that does not own the store stages, ingests and discards like the owner."""
    with serving(path), mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders", partitions=2)
        found = stage_all(mq, "orders", records(5000))
        assert mq.watermarks("orders")[0].count == 0
        done = mq.ingest(found, writer="job", number=0)
        assert (done.messages, done.repeated, len(done.placed)) == (5000, False, 2)
        again = mq.ingest(stage_all(mq, "orders", records(5000)), writer="job", number=0)
        assert (again.repeated, again.placed) == (True, done.placed)
        assert sum(map(len, read_all(mq, "orders").values())) == 5000
        mq.discard(stage_all(mq, "orders", [b"x"]))
        assert waiting(path) == []


STAGER = """
from bulk_loads import records, stage_all
import pickle
with mqplug.connect("rocksmq", path=str(path)) as mq:
    found = stage_all(mq, "orders", records(100, int(sys.argv[2])))
print(pickle.dumps(found).hex(), flush=True)
"""


def test_many_writers(path: Path) -> None:
    """Batches staged by several processes that have ended are ingested as one."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        several = []
        for number in range(3):
            with python(STAGER, path, 100 * number) as process:
                several.append(pickle.loads(bytes.fromhex(line(process))))
                assert process.wait(30) == 0
        assert mq.ingest(several, writer="job", number=0).messages == 300
        assert read_all(mq, "orders")[0] == [b"%d" % number for number in range(300)]


OWNER = """
from mqplug_rocksmq._store import ingest
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if len(sys.argv) > 2:
    owner, name = sys.argv[2].split(".")
    setattr(getattr(ingest, owner), name, die)
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("orders")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "step",
    ["Ingestion._check", "StagingDirectory.remove", *nightly("Ingestion._ingest_files", "Ingestion._place")],
)
def test_the_owner_dies(path: Path, step: str) -> None:
    """A client process's batch is ingested once, even if the owner is killed during the ingest."""
    with python(OWNER, path, step) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            found = [stage_all(mq, "orders", [Record(b"%d" % number)]) for number in range(3)]
            done = mq.ingest(found, writer="job", number=0, timeout=60)
            assert owner.wait(30) == -signal.SIGKILL
            assert isinstance(mq._connection.access, StoreConnection)
            assert (done.messages, done.repeated) == (3, step != "Ingestion._check")
            assert read_all(mq, "orders") == {0: [b"0", b"1", b"2"]}


def test_a_stage_outlives_the_owner(path: Path) -> None:
    """A stage continues when the store gets another owner, which ingests the earlier files."""
    with python(OWNER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            early = stage_all(mq, "orders", [b"early"])
            with mq.stage("orders") as late:
                late.write([b"late"])
                owner.kill()
                owner.wait()
                mq.ingest([early, late.finish()], writer="job", number=0)
            assert read_all(mq, "orders") == {0: [b"early", b"late"]}


HEIR = """
from bulk_loads import stage_all
name = sys.argv[2]
with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
    for number in range(100_000):
        parts = [stage_all(mq, "orders", [b"%s.%d.%d" % (name.encode(), number, each)] * 5) for each in range(2)]
        mq.ingest(parts, writer=name, number=number, timeout=60)
        print(number, flush=True)
"""


def test_owners_die_one_after_the_other(path: Path) -> None:
    """Writers lose and repeat nothing while each owner, a writer itself, is killed at a random time."""
    heard: dict[str, int] = {}
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
    with contextlib.ExitStack() as present:
        writers = [(name, present.enter_context(python(HEIR, path, name))) for name in "abcd"]
        for number, (name, writer) in enumerate(writers):
            for other, alive in writers[number:]:
                heard[other] = int(line(alive))  # it continues, whichever owner was killed before
            time.sleep(random.Random(number).random() * 0.1)
            writer.kill()
            assert writer.stdout is not None
            heard[name] = max([heard[name], *map(int, writer.stdout.read().split())])
    assert check_store(path).sound
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        found = [(value or b"").split(b".") for value in read_all(mq, "orders")[0]]
    for name, last in heard.items():
        mine = [(int(number), int(each)) for writer, number, each in found if writer == name.encode()]
        batches = len(mine) // 10
        assert mine == [(number, each) for number in range(batches) for each in range(2) for _ in range(5)]
        assert batches in {last + 1, last + 2}


# a full disk ---------------------------------------------------------------------------------------------------

FULL = """
import os, subprocess, sys
from pathlib import Path
import mqplug
path = Path(sys.argv[1])
with mqplug.connect("rocksmq", path=str(path / "store"), sync="os") as mq:
    mq.create_topic("t")
    ready = []
    try:
        while True:
            with mq.stage("t") as stage:
                for _ in range(8):
                    stage.write([os.urandom(900_000)])
                ready.append(stage.finish())
    except mqplug.StorageFull as error:
        print(error.retryable, len(list((path / "store" / "staging").iterdir())) == len(ready), flush=True)
    subprocess.run(["mount", "-o", "remount,size=300m", path], check=True)
    done = mq.ingest(ready, writer="w", number=0)
    print(done.messages == 8 * len(ready) == len(list(mq.read("t"))), flush=True)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """A stage on a full disk is ``StorageFull`` and leaves nothing; once there is space, it works again."""
    script = 'mount -t tmpfs -o size=64m tmpfs "$1"; "$2" -c "$3" "$1"'
    assert in_a_namespace(script, tmp_path, sys.executable, FULL).splitlines() == ["True True", "True"]
