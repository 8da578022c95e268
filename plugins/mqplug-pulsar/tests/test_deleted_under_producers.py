"""Topics that are deleted or unloaded under a live producer."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from pulsar_driver import take

import mqplug
from mqplug import EARLIEST

SOON_S = 10  # an idle machine needs less than one


@pytest.fixture(params=["with admin_url", "without"])
def client(request, mq, plain):
    """A client with or without the admin interface."""
    return mq if request.param == "with admin_url" else plain


def test_send_is_told(client, mq, topic):
    """A send to a deleted topic raises ``TopicNotFound`` soon, and close is quick."""
    out = client.producer(topic)
    out.send(b"x")
    mq.delete_topic(topic)
    began = time.monotonic()
    with pytest.raises(mqplug.TopicNotFound):
        out.send(b"y")
    with pytest.raises(mqplug.TopicNotFound):
        out.send(b"z")
    out.close()
    assert time.monotonic() - began < SOON_S


def test_close_is_quick(client, mq, topic):
    """A producer without later sends closes quickly and without an error after its topic was deleted."""
    out = client.producer(topic)
    out.send(b"x")
    mq.delete_topic(topic)
    began = time.monotonic()
    out.close()
    assert time.monotonic() - began < SOON_S


def test_submitted_messages_are_told(mq, topic):
    """Messages in flight when their topic is deleted are stored or fail with ``TopicNotFound``, as close reports."""
    out = mq.producer(topic)
    handles = [out.submit(b"%d" % number) for number in range(100)]
    handles[0].result()
    deletion = Thread(target=mq.delete_topic, args=[topic])
    deletion.start()
    while deletion.is_alive():
        handles.append(out.submit(b"x"))
    handles.append(out.submit(b"last"))
    deletion.join()
    began = time.monotonic()
    with pytest.raises(mqplug.SendFailed, match="the topic was deleted"):
        out.close()
    assert time.monotonic() - began < SOON_S
    assert {type(handle.error) for handle in handles} == {type(None), mqplug.TopicNotFound}
    assert isinstance(handles[-1].error, mqplug.TopicNotFound)


def test_other_topics_go_on(mq, topic, name):
    """A producer for any topic still sends to other topics when one is deleted."""
    mq.create_topic(other := f"{name}-other")
    with mq.producer() as out:
        out.send(b"x", topic=topic)
        out.send(b"x", topic=other)
        mq.delete_topic(topic)
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"y", topic=topic)
        sent = out.send(b"y", topic=other)
    with mq.consumer(other, start=EARLIEST) as reader:
        assert take(reader, 2)[1].id == sent


def test_a_new_topic_of_the_same_name(mq, topic):
    """After ``TopicNotFound`` the same producer sends to a topic that was created again."""
    with mq.producer(topic) as out:
        out.send(b"old")
        mq.delete_topic(topic)
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"lost")
        mq.create_topic(topic)
        sent = out.send(b"new")
    with mq.consumer(topic, start=EARLIEST) as reader:
        assert [(message.id, message.value) for message in take(reader, 1)] == [(sent, b"new")]


def test_a_topic_without_partitions(mq, rest, name):
    """A send to a deleted topic without partitions raises ``TopicNotFound``, too."""
    rest.ask("PUT", rest.path(name))
    with mq.producer(name) as out:
        out.send(b"x")
        mq.delete_topic(name)
        with pytest.raises(mqplug.TopicNotFound):
            out.send(b"y")


def test_unloads_are_no_deletion(mq, topic, pulsar_server):
    """While a topic is unloaded repeatedly, every message is stored, in order."""

    def unload():  # not again before the producer is back: pulsar-client may not survive that
        for _ in range(12):
            pulsar_server.unload(topic)
            unloaded_at = len(handles)
            while len(handles) == unloaded_at or not handles[unloaded_at].done:
                time.sleep(0.02)

    with mq.producer(topic) as out:
        handles = [out.submit(b"0")]
        handles[0].result()
        thread = Thread(target=unload)
        thread.start()
        while thread.is_alive():
            handles.append(out.submit(b"%d" % len(handles)))
            time.sleep(0.001)
        ids = [handle.result(30) for handle in handles]
    stored = {}
    with mq.consumer(topic, start=EARLIEST) as reader:
        while ids[-1] not in stored:  # pulsar-client may send a batch twice
            message = take(reader, 1)[0]
            stored[message.id] = message.value
    assert [stored.get(each) for each in ids] == [b"%d" % number for number in range(len(ids))]
    assert ids == sorted(ids)


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_a_restart_is_no_deletion(plain, topic, pulsar_server):
    """A send waits while the broker is stopped, and succeeds after the broker has started again."""
    with plain.producer(topic) as out:
        out.send(b"x")
        pulsar_server.stop()
        handle = out.submit(b"y")
        looked = time.monotonic() + 2
        while time.monotonic() < looked:
            assert not handle.done
            time.sleep(0.05)
        pulsar_server.start()
        sent = handle.result(60)
    with plain.consumer(topic, start=EARLIEST) as reader:
        assert take(reader, 2)[1].id == sent
