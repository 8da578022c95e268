"""Confirmed acks and moves survive a kill of the broker right afterwards: one kill for all tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from pulsar_driver import (
    ONE_BATCH,
    ack_two_of_three,
    check_exactly,
    check_in_any_order,
    fill,
    killed,
    take,
    take_all,
    take_between,
)

import mqplug

pytestmark = [pytest.mark.disturbs, pytest.mark.timeout(300)]

COMMITS = 10
HOLES = 400
BATCH = 60


def commit_each(member, rounds):
    """Ack and commit each of these groups of messages, one right after the other."""
    for messages in rounds:
        for message in messages:
            member.ack(message)
        member.commit()


def single_messages(taken):
    """Return rounds whose commits store one message each, in order, and the messages that stay unacked."""
    return [[message] for message in taken[:COMMITS]], taken[COMMITS:]


def out_of_order(taken):
    """Return rounds whose commits store every second message of the next four, and the unacked messages."""
    return [taken[at + 1 : at + 4 : 2] for at in range(0, 4 * COMMITS, 4)], taken[::2]


def whole_batches(taken):
    """Return rounds whose commits store a batch of ten messages each, and the unacked messages."""
    return [taken[at : at + 10] for at in range(0, 10 * COMMITS, 10)], taken[10 * COMMITS :]


def holes_in_batches(taken):
    """Return rounds whose commits store a batch and part of another, or two parts, and the unacked messages."""
    rounds = [taken[at : at + 13] for at in range(0, 10 * COMMITS, 15)]
    acked = {message.id for messages in rounds for message in messages}
    return rounds, [message for message in taken if message.id not in acked]


def commits(choose, batches, size):
    """Return a story in which exactly the messages that were not committed come again."""

    def story(mq, topic):
        for _ in range(batches):
            fill(mq, topic, size)
        member = mq.consumer(topic, group="g")
        rounds, rest = choose(take_all(member, batches * size))
        commit_each(member, rounds[:-2])
        yield
        commit_each(member, rounds[-2:])
        yield
        member.close()
        check_exactly(mq, topic, [message.id for message in rest])

    return story


def a_close(mq, topic):
    """An ack that a close stores right after a commit survives the kill as well."""
    ids = [fill(mq, topic, 1)[0] for _ in range(COMMITS + 2)]
    with mq.consumer(topic, group="g") as member:
        taken = take(member, COMMITS)
        yield
        commit_each(member, [[message] for message in taken[:-1]])
        member.ack(taken[-1])
    yield
    check_exactly(mq, topic, ids[COMMITS:])


def many_holes(mq, topic):
    """Single acks inside a large batch survive the kill: only the unacked messages come again."""
    fill(mq, topic, HOLES)
    with mq.consumer(topic, group="g") as member:
        left = ack_two_of_three(member, take_all(member, HOLES))
        yield
        member.commit()
    yield
    check_exactly(mq, topic, left)


def holes_of_two_members(mq, topic):
    """Messages that two members in shared mode acked inside batches at the same time stay acked."""
    for _ in range(6):
        fill(mq, topic, BATCH)
    with ExitStack() as opened:
        one, other = [opened.enter_context(mq.consumer(topic, group="g", mode="shared", **ONE_BATCH)) for _ in range(2)]
        taken = take_between((one, other), 6 * BATCH, BATCH)
        left = [each for member, messages in taken.items() for each in ack_two_of_three(member, messages)]
        yield
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda member: member.commit(), taken))
    yield
    check_in_any_order(mq, topic, left)


def seek(mq, topic, mode, ids):
    """Seek to the first of these ids as a member in this mode. Return the member."""
    member = mq.consumer(topic, group="g", mode=mode)
    member.seek(mqplug.before(ids[0]))
    return member


def reset(mq, topic, mode, ids):
    """Reset the group to the first of these ids."""
    mq.reset_group("g", topic, mqplug.before(ids[0]))


def move_backward(move, mode):
    """Return a story in which messages that were acked before a move backward come again after it."""

    def story(mq, topic):
        ids = [each for _ in range(4) for each in fill(mq, topic, 10)]
        with mq.consumer(topic, group="g") as member:
            taken = take(member, len(ids))
            for message in [*taken[:10], *taken[12:16], *taken[20:30]]:
                member.ack(message)
            member.commit()
        yield
        member = move(mq, topic, mode, ids)
        yield
        if member is not None:
            member.close()
        with mq.consumer(topic, group="g", mode=mode) as member:
            found = [message.id for message in take(member, len(ids))]
            assert (found if mode == "ordered" else sorted(found)) == ids

    return story


STORIES = {
    "commits-of-single-messages": commits(single_messages, 40, 1),
    "commits-out-of-order": commits(out_of_order, 40, 1),
    "commits-of-batches": commits(whole_batches, COMMITS + 1, 10),
    "commits-of-holes": commits(holes_in_batches, COMMITS, 10),
    "a-close": a_close,
    "many-holes": many_holes,
    "holes-of-two-members": holes_of_two_members,
    "a-seek": move_backward(seek, "ordered"),
    "a-reset": move_backward(reset, "ordered"),
    "a-shared-seek": move_backward(seek, "shared"),
    "a-key-shared-seek": move_backward(seek, "key_shared"),
}
"""Generators in three parts: the preparation, the confirmed calls right before the kill, and the checks after it."""


@pytest.fixture(scope="module")
def stories(disturbed_pulsar):
    """The stories by name, right after the kill."""
    with mqplug.connect(disturbed_pulsar.url) as mq, ThreadPoolExecutor(len(STORIES)) as threads:
        for name in STORIES:
            mq.create_topic(f"outlives-{name}")
        begun = {name: story(mq, f"outlives-{name}") for name, story in STORIES.items()}
        for _ in range(2):  # the second parts end together, so that the kill comes right after each
            list(threads.map(next, begun.values()))
        killed(disturbed_pulsar)
        yield begun
        for name in STORIES:
            mq.delete_topic(f"outlives-{name}")  # a worker may come back to these tests


@pytest.mark.parametrize("name", STORIES)
def test_it_lasts(stories, name):
    """What a story had confirmed before the kill still holds after it."""
    assert next(stories[name], "ended") == "ended"
