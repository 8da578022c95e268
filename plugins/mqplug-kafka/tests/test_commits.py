"""Commits of a member whose coordinator is silent: they end in their time, and nothing else waits for them."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from kafka_driver import fill, new_name, take

import mqplug
from mqplug_kafka._consume import committer
from mqplug_kafka._consume.client_source import ClientSource
from mqplug_kafka._consume.committer import Committer, excluded, revoking
from mqplug_kafka._consume.topic_watch import TopicWatch

FIVE = [TopicPartition("t", 0, 5)]
NINE = [TopicPartition("t", 0, 9)]


class Group:
    """A native consumer whose group answers with ``position``, or not at all."""

    def __init__(self):
        self.position = 0
        self.answers = True
        self.answers_after = 0.0
        self.takes_commits = True
        self.refuse = lambda: None  # called with each commit that it does not take
        self.commits = []

    def commit(self, offsets, asynchronous):
        """Take the commit, if it is not lost."""
        assert asynchronous
        self.commits += [each.offset for each in offsets]
        if self.answers and self.takes_commits:
            self.position = offsets[0].offset
        elif not self.takes_commits:
            self.refuse()

    def committed(self, partitions, timeout):
        """Answer, or not."""
        if not self.answers:
            time.sleep(timeout)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        time.sleep(self.answers_after)
        return [TopicPartition(each.topic, each.partition, self.position) for each in partitions]


def commit_elsewhere(commits, offsets, timeout):
    """Commit on another thread than the one that polls."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(commits.commit, offsets, timeout).result()


@pytest.fixture
def group():
    """A group at position 0."""
    return Group()


@pytest.fixture
def commits(group):
    """Commits to that group."""
    made = Committer(group)
    yield made
    made.stop()


@pytest.mark.disturbs
def test_polls_go_on_while_a_commit_waits(kafka_server, mq, topic, monkeypatch):
    """A broker that falls silent during a commit holds up neither the polls of the member, nor the commit's caller."""
    fill(mq, topic, 10)
    polls = []
    fetch = ClientSource.fetch
    with mq.consumer(topic, group=new_name()) as consumer:
        for message in take(consumer, 5):
            consumer.ack(message)
        consumer.commit()
        for message in take(consumer, 2):
            consumer.ack(message)
        monkeypatch.setattr(TopicWatch, "lost", lambda *_: {})  # which would find the silence before the commit
        monkeypatch.setattr(ClientSource, "fetch", lambda *args: (fetch(*args), polls.append(args))[0])
        failures = []

        def commit():
            began = time.monotonic()
            with pytest.raises(mqplug.Timeout):
                consumer.commit(timeout=5)
            failures.append(time.monotonic() - began)

        kafka_server.pause()
        try:
            committing = threading.Thread(target=commit)
            committing.start()
            before = len(polls)
            while committing.is_alive():
                consumer.receive_many(1, timeout=0.1)
            assert len(polls) - before >= 3
        finally:
            kafka_server.unpause()
        committing.join()
        assert failures[0] < 15  # and not the minute of a native commit
        consumer.commit(timeout=60)
        assert consumer.committed()[0].coordinates == (7,)


def test_no_commit_is_sent_while_an_earlier_one_may_be_on_its_way(monkeypatch, group, commits):
    """The native client may send a commit again: until the group has answered for a while, a later one waits for it."""
    monkeypatch.setattr(committer, "SETTLE_S", 0.3)
    group.answers = False
    for offsets in (FIVE, NINE):
        with pytest.raises(mqplug.Timeout):
            commits.commit(offsets, 0.2)
    assert group.commits == [5]
    group.answers, back = True, time.monotonic()
    commits.commit(NINE, 30)
    assert time.monotonic() - back >= 0.3
    assert group.commits == [5, 9]
    commits.commit(FIVE, 30)
    assert group.position == 5


@pytest.mark.parametrize("reported", [True, False])
def test_after_a_slow_answer_the_commit_may_be_on_its_way(monkeypatch, group, commits, reported):
    """The connection may have broken: a later commit waits for a report of the earlier one, or for a while."""
    monkeypatch.setattr(committer, "SETTLE_S", 3.0)
    group.answers_after = 2 * committer.FAST_S
    commits.commit(FIVE, 30)
    if reported:
        commits.note_answer(None, [])
    began = time.monotonic()
    commits.commit(NINE, 30)
    assert (time.monotonic() - began < committer.SETTLE_S / 2) is reported
    assert group.commits == [5, 9]


@pytest.mark.parametrize("reported", [True, False])
def test_a_refused_commit_may_be_repeated_by_the_client(monkeypatch, group, commits, reported):
    """A commit that the group does not have is sent again once the client has reported it, or can repeat it no more."""
    monkeypatch.setattr(committer, "SETTLE_S", 0.5)
    group.takes_commits = False

    def refuse():
        group.takes_commits = True
        if reported:
            commits.note_answer(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [])

    group.refuse = refuse
    began = time.monotonic()
    commits.commit(FIVE, 30)
    assert (time.monotonic() - began < committer.SETTLE_S) is reported
    assert group.commits == [5, 5]


def test_a_commit_without_a_caller_is_not_sent(group, commits):
    """A commit whose caller has left is never sent: the partitions may be handed over before."""
    with commits.polling(0), pytest.raises(mqplug.Timeout):
        commit_elsewhere(commits, FIVE, 0.02)
    commits.commit(NINE, 30)
    assert group.commits == [9]


def test_answers_that_are_as_slow_as_usual_hold_up_no_commit(group, commits):
    """On a slow network, a commit waits for the moment in which the client may repeat the one before, and no longer."""
    group.answers_after = 2 * committer.FAST_S
    for _ in range(3):
        commits.commit(FIVE, 30)
        commits.note_answer(None, [])
    began = time.monotonic()
    commits.commit(NINE, 30)
    commits.commit(FIVE, 30)
    assert committer.USUAL_PAUSE_S <= time.monotonic() - began < committer.SETTLE_S


def test_a_late_commit_is_confirmed_without_another(group, commits):
    """A commit that got through while its caller waited is confirmed as soon as the group answers."""
    group.answers = False

    def recover():
        group.position, group.answers = 5, True

    threading.Timer(0.5, recover).start()
    commits.commit(FIVE, 30)
    assert group.commits == [5]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError.OFFSET_METADATA_TOO_LARGE, mqplug.ConfigError), (KafkaError.ILLEGAL_GENERATION, mqplug.NotAssigned)],
)
def test_a_refused_commit_raises_why(monkeypatch, group, commits, code, kind):
    """The reason of a refusal, which a poll learns, is raised, at once or after refusals have lasted."""
    monkeypatch.setattr(committer, "COMMIT_RETRY_LIMIT_S", 0.3)
    group.takes_commits = False
    answer = SimpleNamespace(error=KafkaError(code))
    threading.Timer(0.1, commits.note_answer, (None, [answer])).start()
    with pytest.raises(kind):
        commits.commit(FIVE, 30)


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.REBALANCE_IN_PROGRESS]
)
def test_a_refusal_that_passes_is_outlasted(monkeypatch, group, commits, code):
    """A coordinator that loads or moves, or a rebalance, may take as long as the caller allows."""
    monkeypatch.setattr(committer, "COMMIT_RETRY_LIMIT_S", 0.1)
    group.takes_commits = False
    answer = SimpleNamespace(error=KafkaError(code))
    group.refuse = partial(commits.note_answer, None, [answer])
    threading.Timer(0.6, setattr, (group, "takes_commits", True)).start()
    commits.commit(FIVE, 30)
    commits.note_answer(None, [])  # else a slow answer would keep the next one waiting
    group.takes_commits = False
    with pytest.raises(mqplug.Timeout, match=KafkaError(code).name()):
        commits.commit(NINE, 1.5)


def test_ctrl_c_ends_the_wait_for_a_commit(group, commits):
    """Ctrl-C need not wait for a question to a coordinator that is silent."""
    group.answers = False
    pressed = []

    def press():
        pressed.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Timer(1.0, press).start()  # during a question, which waits for longer and longer
    with pytest.raises(KeyboardInterrupt):
        commits.commit(FIVE, 5)
    assert time.monotonic() - pressed[0] < 0.5


@pytest.mark.parametrize(("refusal", "kind"), [(revoking, mqplug.Timeout), (excluded, mqplug.NotAssigned)])
def test_a_commit_gives_way_to_a_rebalance(refusal, kind):
    """During a rebalance another thread's commit fails at once, because the callback may be waiting for that thread."""
    consumer = Committer(None)  # type: ignore[arg-type]
    failed: list[BaseException] = []

    def commit():
        try:
            consumer.commit([], 30)
        except mqplug.Error as error:
            failed.append(error)

    with consumer.polling(1) as mine, consumer.rebalancing(refusal):
        assert mine
        thread = threading.Thread(target=commit)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
    consumer.stop()
    assert [type(each) for each in failed] == [kind]
    assert str(failed[0]) == str(refusal())
    assert failed[0].retryable == (kind is mqplug.Timeout)
