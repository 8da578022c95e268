"""Commits whose owner is killed, suspended or out of disk space, and the state that the store keeps for them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from rocksmq_stores import (
    Member,
    OpenStore,
    eventually,
    extent,
    freeze,
    in_a_namespace,
    line,
    new_log,
    nightly,
    python,
    serving,
    values,
)
from store_seam import PageColumns, Store, StoredPosition, back_up_store, check_store, repair_store, restore_backup
from transaction_drivers import Sent, at, hold, read, step, to

import mqplug
from mqplug import Fenced, NotAssigned, OutcomeUnknown
from mqplug.spi import GroupMove, TransactionMark
from mqplug_rocksmq._format.keys import step_mark_key, transaction_key
from mqplug_rocksmq._format.page import encode_page
from mqplug_rocksmq._store.transactions import LogPages, PlacedPages, StepContent, StepId


def content(*numbers: bytes, mark: int | None = None, check: object = None) -> StepContent:
    """Return a transaction with one page."""
    parts = [LogPages("orders", 0, [encode_page(PageColumns([1000] * len(numbers), numbers))])] if numbers else []
    made = StepContent(parts, mark=None if mark is None else TransactionMark("orders", mark))
    return made._replace(check=check) if check else made


# the store --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", ["always", "os"])
def test_a_commit_that_is_repeated_is_stored_once(open_store: OpenStore, sync: str) -> None:
    """The same transaction of the same holder is stored once, by this owner and by the next."""
    store = open_store(sync=sync)
    log = new_log(store)
    store.transactions.hold("biller", "one", 10)
    assert store.transactions.commit(StepId("biller", "one", 1), content(b"a", b"b"), 10) == [PlacedPages(log, 0)]
    for _ in range(2):
        assert list(store.transactions.commit(StepId("biller", "one", 1), content(b"a", b"b"), 10)) == [(log, 0)]
        store.close(10)
        store = open_store(sync=sync)
    assert store.transactions.commit(StepId("biller", "one", 2), content(b"c"), 10) == [PlacedPages(log, 2)]
    assert values(store, log) == [b"a", b"b", b"c"]


def test_a_transaction_that_was_given_up_is_never_committed(open_store: OpenStore) -> None:
    """A commit that arrives after its holder gave it up is refused; a committed one is reported as committed."""
    store = open_store(sync="os")
    log = new_log(store)
    store.transactions.hold("biller", "one", 10)
    assert not store.transactions.give_up(StepId("biller", "one", 1), 10)
    with pytest.raises(Fenced, match="given up"):
        store.transactions.commit(StepId("biller", "one", 1), content(b"late"), 10)
    store.transactions.commit(StepId("biller", "one", 2), content(b"a"), 10)
    assert store.transactions.give_up(StepId("biller", "one", 2), 10)
    store.transactions.commit(StepId("biller", "one", 3), content(b"b"), 10)
    assert values(store, log) == [b"a", b"b"]


def test_a_holder_stays_fenced_when_the_store_is_opened_again(open_store: OpenStore) -> None:
    """A former holder stays fenced after reopening, and holding a name again changes nothing of its commits."""
    store = open_store(sync="os")
    new_log(store)
    store.transactions.hold("biller", "one", 10)
    store.transactions.hold("biller", "two", 10)
    store.transactions.commit(StepId("biller", "two", 1), content(b"a", mark=5), 10)
    store.transactions.hold("biller", "two", 10)
    store.close(10)
    store = open_store(sync="os")
    with pytest.raises(Fenced):
        store.transactions.commit(StepId("biller", "one", 1), content(b"b"), 10)
    assert store.transactions.give_up(StepId("biller", "two", 1), 10)
    assert store.transactions.begin("biller", "two", TransactionMark("orders", 5))


def test_a_refusal_leaves_the_log_as_it_was(open_store: OpenStore) -> None:
    """A commit that is refused at the last moment changes nothing, in memory or on disk."""
    store = open_store(sync="always")
    log = new_log(store)
    store.transactions.hold("biller", "one", 10)

    def refuse() -> None:
        raise NotAssigned("lost")

    with pytest.raises(NotAssigned):
        store.transactions.commit(StepId("biller", "one", 1), content(b"a", mark=1, check=refuse), 10)
    assert extent(store, log) == (0, 0)
    store.transactions.commit(StepId("biller", "one", 1), content(b"b"), 10)
    assert values(store, log) == [b"b"]
    assert not store.transactions.begin("biller", "one", TransactionMark("orders", 1))


def with_a_transaction(store: Store) -> int:
    """Commit messages, a position and a mark; return their log."""
    log = new_log(store)
    store.transactions.hold("biller", "one", 10)
    filled = content(b"a", b"b", mark=5)._replace(positions={"billing": {log: StoredPosition(1)}})
    store.transactions.commit(StepId("biller", "one", 1), filled, 10)
    return log


def test_a_check_a_backup_and_a_repair_know_transactions(path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """The state of transactions is sound, and is part of a backup and of a repaired store."""
    store = open_store(sync="os")
    log = with_a_transaction(store)
    back_up_store(store, tmp_path / "backup")
    with store.borrow_pages() as pages:
        changes = pages.changes()
        changes.put(transaction_key("spoilt"), b"?")
        changes.put(step_mark_key(log, "spoilt"), b"?")
        pages.write(changes)
        del changes
    store.close(10)
    findings = [finding.what for finding in check_store(path).findings]
    assert len(findings) == 2
    assert "transaction name" in findings[0]
    repair_store(path)
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    for each in (path, tmp_path / "restored"):
        assert check_store(each).sound
        copy = Store(each, store.settings)
        assert copy.transactions.begin("biller", "one", TransactionMark("orders", 5))
        assert list(copy.transactions.commit(StepId("biller", "one", 1), content(b"a"), 10)) == [(log, 0)]
        assert copy.groups.position("billing", log) == StoredPosition(1)
        copy.close(10)


FULL = """
import os
from contextlib import suppress
from pathlib import Path
import sys
sys.path.insert(0, sys.argv[3])
import mqplug
from transaction_drivers import Sent, hold, read, step
from rocksmq_stores import Member, eventually
from mqplug.spi import GroupMove
from transaction_drivers import at, to
path = Path(sys.argv[1]) / "store"
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq:
    mq.create_topic("orders", partitions=2)
    mq.create_topic("audit")
    with mq.producer("audit") as out:
        out.send(b"in")
    member = Member(mq, "audit", "g")
    eventually(lambda: member.poll() or member.held)
    driver, stored = hold(mq), 0
    log = mq.partitions("audit")[0]
    while True:
        records = [Sent(os.urandom(400_000), partition=each % 2) for each in range(20)]
        try:
            step(driver, *records, mark=("orders", stored + 1))
        except mqplug.StorageFull:
            break
        stored += 1
    print({type(record.outcome).__name__ for record in records}, stored > 0)
    print([marks.count for marks in mq.watermarks("orders").values()] == [10 * stored, 10 * stored])
    try:
        step(driver, moves=(GroupMove("g", to(log, 1), member.driver.membership()),))
        print(at(mq, "g", "audit"))
    except mqplug.StorageFull:
        print([1])
    member.driver.close(10)
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq:
    print([marks.count for marks in mq.watermarks("orders").values()] == [10 * stored, 10 * stored])
    print(hold(mq).begin(mqplug.spi.TransactionMark("orders", stored), 10) is not None)
    print(hold(mq).begin(mqplug.spi.TransactionMark("orders", stored + 1), 10) is not None)
"""


@pytest.mark.parametrize("sync", ["os", *nightly("always")])
def test_a_commit_that_does_not_fit_on_the_disk_stores_nothing(tmp_path: Path, sync: str) -> None:
    """On a full disk a commit is refused whole: neither its records nor its mark are stored."""
    script = 'mkdir -p "$1"; mount -t tmpfs -o size=64m none "$1"; "$2" -c "$3" "$1" "$4" "$5"'
    said = in_a_namespace(script, tmp_path / "disk", sys.executable, FULL, sync, Path(__file__).parent)
    assert said.splitlines() == ["{'StorageFull'} True", "True", "[1]", "True", "True", "False"]


# owners that are killed and stopped --------------------------------------------------------------------------

OWNER = """
import mqplug_rocksmq._processes.requests as requests
mq = mqplug.connect("rocksmq", path=str(path), sync="os")
mq.create_topic("orders")
with mq.producer("orders") as out:
    out.send_many([mqplug.Record(b"in") for _ in range(5)])
answer, when = requests.answer_commit, sys.argv[2]
def once(*arguments):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = answer(*arguments)
    if when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return done
requests.answer_commit = once
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_owner_is_killed_is_stored_once(path: Path, when: str) -> None:
    """If the owner is killed before or after it stored the commit, the next owner stores it, or knows its ids."""
    with python(OWNER, path, when) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            driver, record = hold(mq), Sent(b"out")
            assert not step(driver, record, mark=("orders", 1))
            assert owner.wait(20) == -signal.SIGKILL
            assert (record.outcome, read(mq)) == (5, [b"in"] * 5 + [b"out"])
            assert step(driver, Sent(b"more"), mark=("orders", 1))
            assert hold(mq).begin(TransactionMark("orders", 1), 10)


@pytest.mark.parametrize("when", ["before", "after"])
def test_positions_whose_owner_is_killed_are_stored_with_the_messages_or_not_at_all(path: Path, when: str) -> None:
    """If the owner is killed, a commit with positions counts if that owner stored it, and otherwise is NotAssigned."""
    with python(OWNER, path, when) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            member = Member(mq, "orders", "billing")
            eventually(lambda: member.poll() or member.held)
            driver, record = hold(mq), Sent(b"out")
            move = GroupMove("billing", to(mq.partitions("orders")[0], 4), member.driver.membership())
            driver.begin(None, 10)
            driver.send([record])
            if when == "after":
                driver.commit((move,), 10)
            else:
                with pytest.raises(NotAssigned):
                    driver.commit((move,), 10)
            assert owner.wait(20) == -signal.SIGKILL
            assert at(mq) == [4 if when == "after" else 0]
            assert read(mq).count(b"out") == (when == "after")
            assert (record.outcome == 5) == (when == "after")
            member.held.clear()
            eventually(lambda: member.poll() or member.held)
            other = Sent(b"again")
            step(
                driver,
                other,
                moves=(GroupMove("billing", to(mq.partitions("orders")[0], 5), member.driver.membership()),),
            )
            assert at(mq) == [5]
            member.driver.close(10)


def test_a_commit_without_an_answer_is_settled_by_the_next_step(path: Path) -> None:
    """If the owner is suspended, the outcome is unknown. The next step settles it, even if the owner resumes later."""
    with serving(path) as owner, mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        driver, record = hold(mq), Sent(b"a")
        driver.begin(TransactionMark("orders", 1), 10)
        driver.send([record])
        freeze(owner)
        with pytest.raises(OutcomeUnknown):
            driver.commit((), 0.3)
        assert isinstance(record.outcome, OutcomeUnknown)
        with pytest.raises(mqplug.Timeout):
            driver.begin(TransactionMark("orders", 1), 0.3)
        owner.send_signal(signal.SIGCONT)
        if not driver.begin(TransactionMark("orders", 1), 20):
            driver.send([Sent(b"a")])
        driver.commit((), 20)
        assert read(mq) == [b"a"]
        assert driver.begin(TransactionMark("orders", 1), 10)


def test_a_holder_in_another_process_is_fenced_after_a_takeover(path: Path) -> None:
    """A name that another process took over stays with it when the store gets another owner."""
    with python(OWNER, path, "never") as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            older, newer = hold(mq), hold(mq)
            older_record = Sent(b"lost")
            newer.begin(None, 10)
            owner.kill()
            owner.wait(20)
            newer.send([Sent(b"out")])
            newer.commit((), 20)
            with pytest.raises(Fenced):
                older.begin(None, 10)
            older.send([older_record])
            assert read(mq) == [b"in"] * 5 + [b"out"]
