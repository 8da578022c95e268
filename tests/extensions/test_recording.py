"""``mqplug_testing.recording`` records every call with its subject and its outcome, even after a kill."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import attrs
import pytest
from memory_drivers import Heard, Seam, through

import mqplug
from mqplug.spi import ConsumerDriver, ConsumerOptions, GroupPosition, Settlement
from mqplug.spi.proxies import ConsumerProxy, ListenerRelay
from mqplug_testing.faults import Faults, Rule
from mqplug_testing.recording import Call, Recorder, Settled, digest, read


@pytest.fixture(params=["memory", "file"])
def recorder(request, tmp_path):
    """A recorder, once in memory and once in a file."""
    return Recorder(tmp_path / "history.jsonl" if request.param == "file" else None)


class Letter:
    """A record on its way that ignores its outcome."""

    topic, key, value, headers, timestamp = "t", None, b"x", (), None

    def __init__(self, partition):
        self.partition = partition

    def stored(self, log, coordinates, detail=()):
        """Ignore the outcome."""


class Storing:
    """A driver that stores every record under the same id."""

    def __init__(self, log):
        self.log = log

    def send(self, sendings):
        for sending in sendings:
            sending.stored(self.log, (0,))


def of(recorder, *operations):
    """Return the recorded calls of these operations."""
    return [call for call in recorder.calls() if call.operation in operations]


def test_what_was_sent_is_recorded_in_columns(recorder):
    """A batch has topic, partition, log, payloads, ids and outcomes of its messages, by partition."""
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("t", partitions=2)
        records = [mqplug.Record(str(number).encode(), key=b"k", partition=number % 2) for number in range(4)]
        with mq.producer("t") as out:
            ids = out.send_many(records)
        logs = mq.partitions("t")
    calls = of(recorder, "send")
    even, odd = (sent for call in calls for sent in call.sent)
    assert {call.outcome for call in calls} == {"ok"}
    assert all(call.ended >= call.began for call in calls)
    assert (even.topic, even.partition, even.log) == ("t", 0, logs[0])
    assert odd.coordinates == (ids[1].coordinates, ids[3].coordinates)
    assert odd.values == (digest(b"1"), digest(b"3"))
    assert odd.keys == (digest(b"k"),) * 2
    assert even.outcomes == ("ok", "ok")


def test_messages_of_one_call_keep_their_order():
    """Messages of one call to several partitions are grouped, and keep their places in the call."""
    recorder = Recorder()
    log = mqplug.Log("b", "c", "t", 0)
    producer = through(recorder.mqplug_open_producer(Seam().connection), Storing(log))
    producer.send([Letter(0), Letter(1), Letter(0)])
    (call,) = of(recorder, "send")
    assert [(sent.partition, sent.rows) for sent in call.sent] == [(0, (0, 2)), (1, (1,))]


def test_outcomes_are_told_apart():
    """A proven failure, an unknown outcome and a mixture are recorded as such, with the error."""
    recorder = Recorder()
    rules = [Rule("send", "fail", nth=1), Rule("send", "drop", nth=2), Rule("send", "fail", nth=4)]
    with mqplug.connect("memory", extensions=[recorder, Faults(rules)]) as mq:
        out = mq.producer("t", create=True)
        for _ in range(2):
            with pytest.raises(mqplug.Error):
                out.send(b"x")
        with pytest.raises(mqplug.SendFailed):
            out.send_many([b"y", b"z"])
    failed, unknown, mixed = of(recorder, "send")
    assert (failed.outcome, failed.sent[0].outcomes) == ("failed", ("failed",))
    assert failed.error.startswith("ConnectError: injected by mqplug_testing.faults")
    assert (unknown.outcome, unknown.sent[0].log) == ("unknown", None)
    assert mixed.outcome == "unknown"
    assert sorted(outcome for sent in mixed.sent for outcome in sent.outcomes) == ["failed", "ok"]


def test_what_was_received_is_recorded(recorder):
    """A poll that returned messages is a call with its batches; an empty one is not recorded."""
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("t")
        with mq.producer("t") as out:
            ids = out.send_many([b"1", None, b"3"])
        with mq.consumer("t", start=mqplug.EARLIEST) as reader:
            assert len(reader.receive_many(10, timeout=5)) == 3
            assert reader.receive(timeout=0.1) is None
    (call,) = of(recorder, "poll")
    (received,) = call.received
    assert received.log is ids[0].log
    assert received.coordinates == tuple(each.coordinates for each in ids)
    assert received.values == (digest(b"1"), None, digest(b"3"))
    assert received.attempts == (1, 1, 1)
    assert received.next_position > mqplug.Position(ids[0].log, ids[2].coordinates)


def test_where_a_group_stands_is_recorded(recorder):
    """Assignments, seeks and commits are calls with the position, and the later acked ranges, of each log."""
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("t")
        with mq.producer("t") as out:
            ids = out.send_many([b"1", b"2", b"3"])
        with mq.consumer("t", group="g") as reader:
            received = [reader.receive(timeout=5) for _ in range(3)]
            reader.ack(received[2])
            reader.commit()
            reader.seek(ids[1])
    log = ids[0].log
    opened, assigned, committed, sought = of(recorder, "open_consumer", "assigned", "commit", "seek")[:4]
    assert (opened.group, opened.logs) == ("g", (log,))
    assert assigned.positions == (GroupPosition(mqplug.Position(log, (0,))),)
    assert committed.positions == (GroupPosition(mqplug.Position(log, (0,)), (((2,), (2,)),)),)
    assert sought.positions == (GroupPosition(mqplug.Position(log, (1,))),)
    assert {each.member for each in (opened, assigned, committed, sought)} == {opened.member}
    assert opened.member.startswith("client-1/consumer-")


def test_a_hand_over_is_recorded():
    """The partitions that one member gives up, with their positions, come before the other's assignment."""
    recorder = Recorder()
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("t", partitions=2)
        with mq.consumer("t", group="g") as one:
            one.receive(timeout=0)
            with mq.consumer("t", group="g") as other:
                one.receive(timeout=0)
                other.receive(timeout=0)
    first, revoked, second = of(recorder, "assigned", "revoked")
    assert revoked.logs == second.logs
    assert set(revoked.logs) < set(first.logs)
    assert revoked.member == first.member != second.member


def test_what_a_shared_group_settles_is_recorded():
    """Settling is a call with the acked and nacked messages of each log."""

    class Driver(ConsumerDriver):
        def poll(self, most, timeout):
            return ()

        def settle(self, settled, timeout):
            return 0

    recorder = Recorder()
    log = mqplug.Log("b", "c", "t", 0)
    options = ConsumerOptions(logs=[log], group="g", start=mqplug.EARLIEST, mode="shared")
    hook = recorder.mqplug_open_consumer(Seam().connection, options, ListenerRelay(Heard()))
    consumer = through(hook, ConsumerProxy(Driver()))
    consumer.settle({log: Settlement(acked=[(1,)], returned=[((2,), 0.5)])}, 1)
    (call,) = of(recorder, "settle")
    assert (call.operation, call.outcome) == ("settle", "ok")
    assert call.settled == (Settled(log, ((1,),), ((2,),)),)


def test_questions_and_administration_are_recorded(recorder):
    """Creations, deletions, trims, watermarks and closes are calls with their logs and positions."""
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("t")
        with mq.producer("t") as out:
            out.send_many([b"1", b"2"])
        (log,) = mq.partitions("t")
        mq.alter_topic("t", retention=60)
        mq.trim("t", {0: mqplug.Position(log, (1,))})
        marks = mq.watermarks("t")[0]
        with pytest.raises(mqplug.TopicNotFound):
            mq.delete_topic("nonsense")
        mq.delete_topic("t")
    operations = ("create_topic", "alter_topic", "trim", "watermarks")
    (created,), (altered,), (trimmed,), (asked,) = (of(recorder, each) for each in operations)
    assert (created.topic, created.logs) == (altered.topic, altered.logs) == ("t", (log,))
    assert trimmed.positions == (GroupPosition(mqplug.Position(log, (1,))),)
    assert asked.watermarks == (marks,)
    refused, deleted = of(recorder, "delete_topic")
    assert (refused.outcome, deleted.outcome) == ("failed", "ok")
    assert refused.error.startswith("TopicNotFound: ")
    assert recorder.calls()[-1].operation == "close"


@pytest.mark.parametrize(
    ("action", "error", "outcome"),
    [("lose_ack", "x", "unknown"), ("fail", "ConnectError", "unknown"), ("fail", "AccessDenied", "failed")],
)
def test_a_change_that_was_not_answered_is_unknown(action, error, outcome):
    """A change without an answer may have been made; an error that refuses it proves that it was not."""
    recorder = Recorder()
    rule = Rule("create_topic", action, error="Timeout" if error == "x" else error)
    with mqplug.connect("memory", extensions=[recorder, Faults([rule])]) as mq, pytest.raises(mqplug.Error):
        mq.create_topic("t")
    assert [call.outcome for call in of(recorder, "create_topic")] == [outcome]


@pytest.mark.parametrize(("payloads", "recorded"), [("digest", digest(b"x")), ("value", b"x"), ("none", None)])
def test_payloads_are_recorded_by_choice(tmp_path, payloads, recorded):
    """Digests, the values themselves or nothing are kept, in a file as in memory."""
    recorder = Recorder(tmp_path / "history.jsonl", payloads=payloads)
    with mqplug.connect("memory", extensions=[recorder]) as mq, mq.producer("t", create=True) as out:
        out.send(b"x")
    assert of(recorder, "send")[0].sent[0].values == (recorded,)


def test_several_clients_share_a_recorder_and_a_file(tmp_path):
    """Members have names of their own, and from a shared file each recorder returns its own calls."""
    path = tmp_path / "history.jsonl"
    first, second = Recorder(path), Recorder(path)
    for recorder in (first, first, second):
        mqplug.connect("memory", extensions=[recorder]).close()
    assert [call.member for call in of(first, "connect")] == ["client-1", "client-2"]
    assert len(of(second, "connect")) == 1
    assert sorted(read(path), key=lambda call: call.began) == list(read(path))
    assert {call.run for call in read(path)} == {call.run for call in first.calls() + second.calls()}


def test_a_full_recording_says_so():
    """Calls beyond the limit are not kept, and the last kept call says that there were more."""
    recorder = Recorder(limit=10)
    with mqplug.connect("memory", extensions=[recorder]) as mq, mq.producer("t", create=True) as out:
        for _ in range(20):
            out.send(b"x")
    assert recorder.full
    last = recorder.calls()[-1]
    assert (last.operation, last.outcome) == ("recording", "failed")
    assert "full: more than 10" in last.error
    assert sum(call.size for call in recorder.calls()) <= 11


def test_calls_come_back_from_a_file_as_they_were(tmp_path):
    """Calls that are read from a file equal those that a recorder in memory has."""
    kept, written = Recorder(), Recorder(tmp_path / "history.jsonl")
    with mqplug.connect("memory", extensions=[kept, written]) as mq:
        mq.create_topic("t", partitions=2)
        with mq.producer("t") as out:
            out.send_many([mqplug.Record(b"1", key=b"a"), mqplug.Record(None, key=b"b")])
        with mq.consumer("t", group="g") as reader:
            reader.ack(reader.receive(timeout=5))
        mq.watermarks("t")

    def comparable(call: Call) -> Call:
        return attrs.evolve(call, run="", began=0.0, ended=0.0)

    assert [*map(comparable, written.calls())] == [*map(comparable, kept.calls())]


CHILD = """
    import sys
    import mqplug
    from mqplug_testing.faults import Faults, Rule
    from mqplug_testing.recording import Recorder

    hang = Faults([Rule("create_topic", "delay", delay=60, topic="never")])
    mq = mqplug.connect("memory", extensions=[Recorder(sys.argv[1]), hang])
    out = mq.producer("t", create=True)
    for number in range(50):
        out.send(str(number).encode())
        print(number, flush=True)
    print("hanging", flush=True)
    mq.create_topic("never", timeout=60)
"""


def test_a_killed_process_leaves_its_recording(tmp_path):
    """After kill -9 the file has every acknowledged send, and the call that was under way as unknown."""
    path = tmp_path / "history.jsonl"
    command = [sys.executable, "-c", dedent(CHILD), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            for line in child.stdout:
                if line == "hanging\n":
                    break
            while "never" not in path.read_text():
                assert child.poll() is None
        finally:
            child.kill()
    sent = [call for call in read(path) if call.operation == "send"]
    assert [call.sent[0].values for call in sent] == [(digest(str(number).encode()),) for number in range(50)]
    assert {call.outcome for call in sent} == {"ok"}
    last = list(read(path))[-1]
    assert (last.operation, last.topic, last.outcome, last.ended) == ("create_topic", "never", "unknown", None)


def test_a_line_that_was_cut_off_is_passed_over_and_a_damaged_one_is_not(tmp_path):
    """A file that ends within a line is read up to that line; any other damage raises Corrupt."""
    path = tmp_path / "history.jsonl"
    mqplug.connect("memory", extensions=[Recorder(path)]).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [call.operation for call in read(path)] == ["connect", "close"]
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(mqplug.Corrupt, match="line 1 of"):
        list(read(path))


def test_wrong_settings_of_a_recorder_are_refused():
    """An unknown kind of payloads and a limit of 0 raise ValueError."""
    with pytest.raises(ValueError, match="payloads"):
        Recorder(payloads="everything")
    with pytest.raises(ValueError, match="limit"):
        Recorder(limit=0)
