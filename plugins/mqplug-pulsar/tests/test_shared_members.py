"""Members in shared modes, over Pulsar's Shared and Key_Shared subscriptions."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from driver_faults import change, shorten
from pulsar_driver import fill, take

import mqplug
from mqplug import Retry

LIMIT_S = 30
MODES = ("shared", "key_shared")


def drip(mq, topic, count, key=None):
    """Send messages one by one, each as its own entry, and return their ids."""
    with mq.producer(topic) as out:
        return [out.send(b"%d" % number, key=key) for number in range(count)]


def test_an_ack_takes_no_neighbour_along(mq, topic):
    """Exactly the unacked messages of a batch come to the next member."""
    ids = fill(mq, topic, 6)
    with mq.consumer(topic, group="g", mode="shared") as member:
        taken = take(member, 6)
        for index in (1, 2, 5):
            member.ack(taken[index])
        member.commit()
    with mq.consumer(topic, group="g", mode="shared") as heir:
        left = take(heir, 3)
        assert sorted((each.id, each.attempt) for each in left) == [(ids[index], 1) for index in (0, 3, 4)]
        for message in left:
            heir.ack(message)
    with mq.consumer(topic, group="g", mode="shared") as last:
        fresh = drip(mq, topic, 1)
        assert take(last, 1)[0].id == fresh[0]


def test_a_message_may_come_before_its_subscription_returns(mq, topic, monkeypatch):
    """A message that arrives while pulsar-client is still subscribing can be acked and committed."""
    drip(mq, topic, 1)
    committed = threading.Event()

    def subscribe_late(opened, feed, subscribe):
        def late(listener):
            native = subscribe(listener)
            committed.wait(LIMIT_S)
            return native

        opened(feed, late)

    change(monkeypatch, "subscription of a shared member", subscribe_late)
    with mq.consumer(topic, group="g", mode="shared") as member:
        member.ack(take(member, 1)[0])
        member.commit()
        committed.set()
    fresh = drip(mq, topic, 1)
    with mq.consumer(topic, group="g", mode="shared") as heir:
        assert take(heir, 1)[0].id == fresh[0]


def test_a_member_closed_while_it_subscribes_keeps_nothing(mq, topic, monkeypatch):
    """A member that is closed while its first receive still subscribes takes no message from the next member."""
    closed = threading.Event()

    def read_after_close(read, *given):
        closed.wait(LIMIT_S)
        return read(*given)

    change(monkeypatch, "read of a note", read_after_close)
    with mq.consumer(topic, group="g", mode="shared") as member:
        assert member.receive(0) is None
    closed.set()
    ids = drip(mq, topic, 20)
    with mq.consumer(topic, group="g", mode="shared") as heir:
        assert sorted(each.id for each in take(heir, 20)) == ids


def test_a_member_takes_no_more_than_it_receives(mq, topic):
    """Messages that a member has not received go to another member, while the first is still open."""
    ids = drip(mq, topic, 20)
    with (
        mq.consumer(topic, group="g", mode="shared") as one,
        mq.consumer(topic, group="g", mode="shared") as other,
    ):
        [kept] = take(one, 1)
        assert sorted([kept.id, *(each.id for each in take(other, 19))]) == ids


def test_a_nacked_message_waits_for_its_own_delay(mq, topic):
    """Two messages nacked with different delays come again when due, as second attempts."""
    ids = drip(mq, topic, 2)
    with mq.consumer(topic, group="g", mode="shared") as member:
        late, soon = take(member, 2)
        began = time.monotonic()
        member.nack(late, delay=2)
        member.nack(soon, delay=0.5)
        again = take(member, 1)[0]
        assert (again.id, again.attempt) == (ids[1], 2)
        again = take(member, 1)[0]
        assert (again.id, again.attempt) == (ids[0], 2)
        assert time.monotonic() - began > 1.9


def test_nacks_and_acks_inside_a_batch(mq, topic):
    """Nacked messages of a batch come again as next attempts; acked ones, and those in hand, do not."""
    ids = fill(mq, topic, 6)
    with mq.consumer(topic, group="g", mode="shared") as member:
        taken = take(member, 6)
        for index in (0, 3):
            member.ack(taken[index])
        for index in (1, 4):
            member.nack(taken[index], delay=0)
        again = take(member, 2)
        assert [(each.id, each.attempt) for each in again] == [(ids[1], 2), (ids[4], 2)]
        fresh = drip(mq, topic, 1)
        assert take(member, 1)[0].id == fresh[0]
        for message in (*again, taken[2]):
            member.ack(message)
        member.commit()
    with mq.consumer(topic, group="g", mode="shared") as heir:
        assert sorted(each.id for each in take(heir, 2)) == [ids[5], fresh[0]]


@pytest.mark.parametrize("mode", MODES)
def test_dead_letters(mq, topic, name, mode):
    """A message without attempts left becomes a dead letter and is acked; the others are not held up."""
    mq.create_topic(name + "-dead")
    ids = drip(mq, topic, 3)
    options = {"mode": mode, "retry": Retry(3, delay=0), "dead_letter": name + "-dead"}
    with mq.consumer(topic, group="g", **options) as member:
        attempts, done = [], 0
        while done < 2 or len(attempts) < 3:
            [message] = take(member, 1)
            if message.id == ids[1]:
                attempts.append(message.attempt)
                member.nack(message, reason="no")
            else:
                member.ack(message)
                done += 1
        assert attempts == [1, 2, 3]
    with mq.consumer(name + "-dead", start=mqplug.EARLIEST) as dead:
        assert dict(take(dead, 1)[0].headers)["mqplug-dead-source"] == str(ids[1]).encode()
    with mq.consumer(topic, group="g", mode=mode) as heir:
        fresh = drip(mq, topic, 1)
        assert take(heir, 1)[0].id == fresh[0]


def test_a_nacked_message_holds_back_its_key(mq, topic):
    """In key_shared mode a nacked message comes before later ones of its key; other keys are not held up."""
    ids = drip(mq, topic, 3, key=b"a")
    other = drip(mq, topic, 1, key=b"b")
    with mq.consumer(topic, group="g", mode="key_shared") as member:
        first = take(member, 1)[0]
        assert first.id == ids[0]
        member.nack(first, delay=3)  # the other key arrives from the broker during the delay
        came = take(member, 4)
        assert [each.id for each in came if each.key == b"a"] == ids
        assert came[0].id == other[0]


def test_a_member_that_gets_nothing_takes_no_keys(mq, topic, rest, monkeypatch):
    """In key_shared mode keys stay with their members while a member waits for messages."""
    looks = []
    shorten(monkeypatch, "look for a stuck member", 0.1)
    change(monkeypatch, "look for a stuck member", lambda look, *args: (looks.append(args), look(*args))[1])
    with (
        mq.consumer(topic, group="g", mode="key_shared") as one,
        mq.consumer(topic, group="g", mode="key_shared") as other,
        mq.producer(topic) as out,
    ):
        number, have = 0, set()
        while len(have) < 2:
            number += 1
            out.send(b"", key=b"%d" % number)
            for member in (one, other):
                for message in member.receive_many(9, timeout=0.1):
                    member.ack(message)
                    have.add(member)
                member.commit()
        before = _key_ranges(rest, topic)
        del looks[:]
        while len(looks) < 4:
            one.receive(0.05)
            other.receive(0.05)
        assert _key_ranges(rest, topic) == before


def _key_ranges(rest, topic):
    """Return the key ranges of each member."""
    stats = rest.ask("GET", f"{rest.path(rest.log(topic, 0))}/stats")
    return {each["consumerName"]: each["keyHashRangeArrays"] for each in stats["subscriptions"]["g"]["consumers"]}


def test_a_batch_of_several_keys_is_warned_of(mq, topic, caplog):
    """In key_shared mode a batch of several keys is delivered, with a warning."""
    with mq.producer(topic) as out:
        out.send_many([mqplug.Record(b"1", key=b"a"), mqplug.Record(b"2", key=b"b")])
    with caplog.at_level(logging.WARNING, "mqplug.pulsar"), mq.consumer(topic, group="g", mode="key_shared") as member:
        take(member, 2)
    assert "several keys" in caplog.text


def test_a_batch_whose_first_message_is_acked_has_one_key(mq, topic, caplog):
    """In key_shared mode the rest of a batch of one key causes no warning about several keys."""
    drip(mq, topic, 1, key=b"a")
    with mq.producer(topic) as out:
        out.send_many([mqplug.Record(b"1", key=b"b"), mqplug.Record(b"2", key=b"b")])
    with mq.consumer(topic, group="g", mode="key_shared") as member:
        member.ack(next(message for message in take(member, 3) if message.value == b"1"))
    with caplog.at_level(logging.WARNING, "mqplug.pulsar"), mq.consumer(topic, group="g", mode="key_shared") as heir:
        assert [message.key for message in take(heir, 2)] == [b"a", b"b"]
    assert "several keys" not in caplog.text


@pytest.mark.parametrize("mode", ["shared", pytest.param("key_shared", marks=pytest.mark.night)])
def test_acks_last_over_an_unload(mq, topic, pulsar_server, mode):
    """Committed acks survive an unload right afterwards; only the unacked messages come again."""
    ids = drip(mq, topic, 8)
    with mq.consumer(topic, group="g", mode=mode) as member:
        taken = take(member, 8)
        for message in taken[::2]:
            member.ack(message)
        member.commit()
        pulsar_server.unload(topic)
    with mq.consumer(topic, group="g", mode=mode) as heir:
        assert sorted(each.id for each in take(heir, 4)) == ids[1::2]
        fresh = drip(mq, topic, 1)
        assert take(heir, 1)[0].id == fresh[0]


def test_messages_in_hand_do_not_come_twice_after_an_unload(mq, topic, pulsar_server):
    """A member that has messages in hand during an unload does not get them again and can still ack them."""
    drip(mq, topic, 4)
    with mq.consumer(topic, group="g", mode="shared") as member:
        taken = take(member, 4)
        pulsar_server.unload(topic)
        fresh = drip(mq, topic, 1)
        assert take(member, 1)[0].id == fresh[0]
        for message in taken:
            member.ack(message)
        member.commit()
    with mq.consumer(topic, group="g", mode="shared") as heir:
        assert [each.id for each in take(heir, 1)] == fresh


@pytest.mark.parametrize("lasts", [1.0, 0.0], ids=["within a second", "later"])
def test_short_receives_get_what_has_to_be_checked(mq, topic, monkeypatch, lasts):
    """Short receives get a message even if the check for acks of others takes longer than they wait."""
    shorten(monkeypatch, "life of a check", lasts)
    shorten(monkeypatch, "life of a read note", 0.0)
    change(monkeypatch, "read of a note", lambda read, *asked: (time.sleep(0.1), read(*asked))[1])
    ids = drip(mq, topic, 5)
    with mq.consumer(topic, group="g", mode="shared") as member:
        came, end = [], time.monotonic() + LIMIT_S
        while len(came) < len(ids):
            assert time.monotonic() < end, came
            if (message := member.receive(0.001)) is not None:
                came.append(message.id)
            time.sleep(0.05)
    assert sorted(came) == ids


HOLDS = """
import sys, time, mqplug
url, topic, mode = sys.argv[1:]
member = mqplug.connect(url).consumer(topic, group="g", mode=mode)
for _ in range(3):
    message = member.receive(30)
member.ack(message)
member.commit()
print("has", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("mode", ["shared", pytest.param("key_shared", marks=pytest.mark.night)])
def test_a_killed_member_frees_what_it_had(mq, pulsar_server, topic, mode):
    """Messages in the hand of a killed process go to another member, and its acked messages do not."""
    ids = drip(mq, topic, 3)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, pulsar_server.url, topic, mode], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "has\n"
    finally:
        process.kill()
        process.communicate()
    with mq.consumer(topic, group="g", mode=mode) as heir:
        assert [each.id for each in take(heir, 2)] == ids[:2]
        fresh = drip(mq, topic, 1)
        assert take(heir, 1)[0].id == fresh[0]


def test_members_that_come_and_go(mq, topic, pulsar_server):
    """With joining and leaving members, nacks and an unload, every message is delivered and can be acked."""
    ids = [*drip(mq, topic, 30), *fill(mq, topic, 30)]
    done = Counter()
    members = [mq.consumer(topic, group="g", mode="shared") for _ in range(3)]
    turn, end = 0, time.monotonic() + 60
    while done.keys() != set(ids):
        assert time.monotonic() < end, f"{sorted(set(ids) - done.keys())} did not come"
        turn += 1
        member = members[turn % 3]
        for message in member.receive_many(5, timeout=0.1):
            if message.attempt == 1 and turn % 4 == 0:
                member.nack(message, delay=0.1)
            else:
                member.ack(message)
                done[message.id] += 1
        if turn % 7 == 0:
            members[turn % 3].close()
            members[turn % 3] = mq.consumer(topic, group="g", mode="shared")
        if turn == 10:
            pulsar_server.unload(topic)
    for member in members:
        member.close()
    with mq.consumer(topic, group="g", mode="shared") as last:
        fresh = drip(mq, topic, 1)
        assert take(last, 1)[0].id == fresh[0]


def test_without_the_admin_interface(plain, mq, topic):
    """Without ``admin_url`` members in shared mode can ack and nack; a seek raises ``Unsupported``."""
    ids = drip(mq, topic, 3)
    with plain.consumer(topic, group="g", mode="shared") as member:
        first, second, third = take(member, 3)
        member.ack(first)
        member.nack(second, delay=0)
        again = take(member, 1)[0]
        assert (again.id.coordinates, again.attempt) == (ids[1].coordinates, 2)
        with pytest.raises(mqplug.Unsupported, match="admin_url"):
            member.seek(mqplug.before(third.id))


@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_acks_are_kept_while_the_broker_stands_still(mq, topic, pulsar_server, monkeypatch):
    """Acks that a frozen broker did not confirm are stored when it runs again, although the member was idle."""
    shorten(monkeypatch, "life of unused messages", 0.2)
    drip(mq, topic, 2)
    with mq.consumer(topic, group="g", mode="shared") as member:
        taken = take(member, 2)
        pulsar_server.pause()
        try:
            for message in taken:
                member.ack(message)
            with pytest.raises(mqplug.Timeout):
                member.commit(timeout=1)
            time.sleep(1.7)  # until an idle member gives up its unused messages
        finally:
            pulsar_server.unpause()
        member.commit(timeout=30)
    with mq.consumer(topic, group="g", mode="shared") as heir:
        fresh = drip(mq, topic, 1)
        assert take(heir, 1)[0].id == fresh[0]
