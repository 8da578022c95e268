"""The checker: each anomaly is found in a history written by hand, and a nearly equal legal one passes."""

from __future__ import annotations

import pytest
from written_histories import EARLIEST, LATEST, STEP, Story, after, before, from_time, last

from mqplug_testing.history import KINDS, History, check, shrink


def story(**guarantee):
    """An empty story."""
    return Story(**guarantee)


def member(story, name="m", group="g"):
    """A story in which a member joins, and is given the partition."""
    return story.open(name, group).assign(name)


def three():
    """A story in which three messages are stored."""
    return story().sent(a=1, b=2, c=3)


def out_of_order():
    """A story with five messages whose times do not ascend, the first two of which are trimmed."""
    made = story().sent(a=1, b=2, c=3, d=4, e=5).open("q")
    for place, (value, log_time) in enumerate(zip("abcde", (5, 9, 4, 8, 9), strict=True), 1):
        made = made.get("q", value, place, log_time=log_time)
    return made.trim(3)


def entries():
    """A story with two messages in one entry, on a backend that acks whole entries."""
    made = story(ack_granularity="entry").send("a", (7, 0)).send("b", (7, 1))
    return member(made).get("m", "a", (7, 0)).get("m", "b", (7, 1)).ack("m", (7, 0))


GUILTY = [
    ("lost", "a stored message is not read", three().final(a=1, c=3)),
    ("lost", "what a reader saw is gone", three().send("d", outcome="unknown").open("r").get("r", "d", 4)
        .sent(e=5).final(a=1, b=2, c=3, e=5)),
    ("forgotten", "an unacked message does not come",
        member(three()).get("m", "a", 1).ack("m", 1).leave("m").final(a=1, b=2, c=3).drain("g", b=2)),
    ("forgotten", "its ack was undone by a seek, and it does not come",
        member(three()).get("m", "a", 1).get("m", "b", 2).get("m", "c", 3).ack("m", 3, through=True)
        .seek("m", before(2), 2).leave("m").final(a=1, b=2, c=3).drain("g", b=2)),
    ("acked by nobody", "the position lies behind an unacked message",
        member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 1).stands("g", 3)),
    ("invented", "nobody sent it",
        three().open("r").get("r", "a", 1).get("r", "b", 2).get("r", "c", 3).get("r", "x", 4)),
    ("invented", "its send had failed", story().send("a", outcome="failed").open("r").get("r", "a", 1)),
    ("two payloads", "two readers get other messages under one id",
        story().send("a", outcome="unknown").send("b", outcome="unknown").open("r").get("r", "a", 1)
        .open("q").get("q", "b", 1)),
    ("two ids", "it lies elsewhere than its producer was told",
        story().send("a", 1).open("r").get("r", "a", 2)),
    ("duplicated", "one send lies at two places",
        story().send("a", 1).open("r").get("r", "a", 1).get("r", "a", 2)),
    ("duplicated", "a backend without idempotence, and without faults, promised once",
        story(idempotent_producer=False).send("a", 1).open("r").get("r", "a", 1).get("r", "a", 2)),
    ("reordered", "the second lies before the first", story().send("a", 2).send("b", 1)),
    ("skipped", "a reader passes a stored message over", three().open("r").get("r", "a", 1).get("r", "c", 3)),
    ("skipped", "a member passes an unacked message over", member(three()).get("m", "a", 1).get("m", "c", 3)),
    ("skipped", "a new member begins behind an unacked message",
        member(member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 2).leave("m"), "n").get("n", "c", 3)),
    ("skipped", "retention takes a message, and nobody says so",
        three().open("r").get("r", "a", 1).trim(3).get("r", "c", 3)),
    ("rewound", "a reader goes back", three().open("r").get("r", "a", 1).get("r", "b", 2).get("r", "a", 1)),
    ("rewound", "a message comes twice in a row", three().open("r").get("r", "a", 1).get("r", "a", 1)),
    ("rewound", "a member gets again what it did not give back",
        member(three()).get("m", "a", 1).get("m", "b", 2).nack("m", 2).get("m", "a", 1)),
    ("rewound", "a seek that was refused moved it after all",
        three().open("r").get("r", "a", 1).get("r", "b", 2).seek("r", before(1), outcome="failed").get("r", "a", 1)),
    ("ack came back", "it was acked and committed",
        member(member(three()).get("m", "a", 1).ack("m", 1).commit("m").leave("m"), "n").get("n", "a", 1)),
    ("ack came back", "it was acked, and the member closed",
        member(member(three()).get("m", "a", 1).ack("m", 1).revoke("m").leave("m", since=65), "n").get("n", "a", 1)),
    ("ack came back", "a member hands out what another acked after it was assigned, where none does",
        member(member(story(hands_out_current=True).sent(a=1)), "n").get("n", "a", 1).ack("n", 1).commit("n")
        .get("m", "a", 1)),
    ("ack came back", "the partition came again later, where hand-overs are invisible",
        member(member(story(assignment_events=False).sent(a=1)), "n").get("n", "a", 1).ack("n", 1).commit("n")
        .revoke("m").assign("m").get("m", "a", 1)),
    ("ack came back", "all of its entry was acked by one member",
        member(entries().ack("m", (7, 1)).leave("m"), "n").get("n", "a", (7, 0))),
    ("seek landed wrong", "an inclusive seek begins behind",
        three().open("r").seek("r", before(2), 2).get("r", "c", 3)),
    ("seek landed wrong", "an exclusive seek begins with the message",
        three().open("r").seek("r", after(2)).get("r", "b", 2)),
    ("seek landed wrong", "LATEST delivers what was there", three().open("r", start=LATEST).get("r", "c", 3)),
    ("seek landed wrong", "LATEST passes over what came afterwards",
        three().open("r", start=LATEST).sent(d=4, e=5).get("r", "e", 5)),
    ("seek landed wrong", "it stands behind what was asked for", three().open("r").seek("r", before(1), 3)),
    ("seek landed wrong", "EARLIEST begins in the midst", three().open("r").get("r", "b", 2)),
    ("seek landed wrong", "the last two are three",
        three().open("r", start=last(2)).get("r", "a", 1)),
    ("seek landed wrong", "a time passes over its first message",
        three().open("q").get("q", "a", 1, log_time=5).get("q", "b", 2, log_time=6).get("q", "c", 3, log_time=6)
        .open("r", start=from_time(6)).get("r", "c", 3, log_time=6)),
    ("seek landed wrong", "a time passes over the first message that retention left",
        out_of_order().open("r", start=from_time(7)).get("r", "e", 5, log_time=9)),
    ("position went down", "nobody sought",
        member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 2, through=True)
        .stands("g", 3).stands("g", 2)),
    ("watermark went down", "high", story().marks(1, 5).marks(1, 4)),
    ("watermark went down", "low", story().marks(2, 5).marks(1, 5)),
    ("wrong watermark", "what is stored lies behind high", three().marks(1, 3)),
    ("wrong watermark", "low lies behind high", story().marks(3, 2)),
    ("wrong watermark", "what is retained lies before low", three().marks(2, 4).final(a=1, b=2, c=3)),
    ("wrong watermark", "a lag of 0 with something to come",
        member(three()).get("m", "a", 1).ack("m", 1).lag("g", 0)),
    ("broke", "an error that nobody should see", story().break_with("KeyError: 7")),
    ("unfinished", "the end could not be read", three().read_to_an_unknown_end()),
]  # fmt: skip

INNOCENT = [
    ("lost", "somebody had it removed", three().trim(2).final(b=2, c=3)),
    ("lost", "its outcome is unknown, and it was never seen",
        three().send("d", outcome="unknown").final(a=1, b=2, c=3)),
    ("lost", "its send ended in the unknown, and it came behind the end of the last read",
        three().send("d", outcome="unknown").final(a=1, b=2, c=3).open("r", start=LATEST).get("r", "d", 4)),
    ("forgotten", "it comes",
        member(three()).get("m", "a", 1).ack("m", 1).leave("m").final(a=1, b=2, c=3).drain("g", b=2, c=3)),
    ("forgotten", "a seek passed it",
        member(three()).seek("m", after(2), 3).leave("m").final(a=1, b=2, c=3).drain("g", c=3)),
    ("forgotten", "the group began behind it",
        three().open("m", "g", LATEST).leave("m").sent(d=4).final(a=1, b=2, c=3, d=4)
        .drain("g", d=4)),
    ("acked by nobody", "the ack is under way",
        member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 1).ack("m", 2)
        .stands("g", 3)),
    ("acked by nobody", "a seek came while it was asked",
        member(three()).get("m", "a", 1).ack("m", 1).seek("m", EARLIEST, 1).stands("g", 2, since=65)),
    ("acked by nobody", "retention took it", member(three()).trim(3).seek("m", EARLIEST, 3).stands("g", 3)),
    ("invented", "its outcome was unknown", story().send("a", outcome="unknown").open("r").get("r", "a", 1)),
    ("two payloads", "one id in each of two partitions",
        story().send("a", 1).send("b", 1, partition=1).open("r").get("r", "a", 1).get("r", "b", 1, partition=1)),
    ("two ids", "it is where its producer was told", story().send("a", 1).open("r").get("r", "a", 1)),
    ("duplicated", "a producer that is not idempotent met a fault",
        story(idempotent_producer=False).disturb("kill").send("a", 1).open("r")
        .get("r", "a", 1).get("r", "a", 2)),
    ("duplicated", "the same message is read twice, after a seek",
        story().send("a", 1).open("r").get("r", "a", 1).seek("r", before(1), 1).get("r", "a", 1)),
    ("reordered", "they are of two producers", story().send("a", 2, producer="p").send("b", 1, producer="q")),
    ("reordered", "of a message that is there twice the first counts",
        story(idempotent_producer=False, exactly_once=False).sent(a=1, b=2).open("r").get("r", "a", 1).get("r", "b", 2)
        .get("r", "a", 3)),
    ("skipped", "ids are sparse", story().sent(a=1, c=3).open("r").get("r", "a", 1).get("r", "c", 3)),
    ("skipped", "the group has it acked",
        member(member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 2).leave("m"), "n")
        .get("n", "a", 1).get("n", "c", 3)),
    ("skipped", "retention had taken it before the group began",
        member(story().sent(a=1, b=2, c=3).trim(2)).get("m", "b", 2)),
    ("skipped", "retention takes it, on a backend that need not say so",
        story(tells_trim=False).sent(a=1, b=2, c=3).open("r").get("r", "a", 1).trim(3).get("r", "c", 3)),
    ("skipped", "what one call returned is noted while the partition goes",
        member(three()).get("m", "a", 1, since=50).revoke("m").get("m", "b", 2, since=50)),
    ("skipped", "all that a call returned is noted when the partition was gone",
        member(three()).revoke("m").get("m", "a", 1, since=50).get("m", "b", 2, since=50)),
    ("skipped", "it asked to go on with what is left",
        three().open("r").get("r", "a", 1).trim(3).seek("r", before(2), 2, missing="next").get("r", "c", 3)),
    ("skipped", "a member did not mind that it was removed, and acked what lies behind it",
        member(member(story().sent(a=1, b=2, c=3, d=4)).trim(3).seek("m", before(2), 2, missing="next")
        .get("m", "c", 3).ack("m", 3).leave("m"), "n").get("n", "d", 4)),
    ("rewound", "it sought",
        three().open("r").get("r", "a", 1).get("r", "b", 2).seek("r", before(1), 1).get("r", "a", 1)),
    ("rewound", "it gave it back",
        member(three()).get("m", "a", 1).get("m", "b", 2).nack("m", 1).get("m", "a", 1)),
    ("rewound", "it went away and came back",
        member(three()).get("m", "a", 1).get("m", "b", 2).revoke("m").assign("m").get("m", "a", 1)),
    ("rewound", "nobody tells of hand-overs there",
        member(story(assignment_events=False).sent(a=1, b=2)).get("m", "a", 1).get("m", "b", 2).get("m", "a", 1)),
    ("ack came back", "it was not committed: a crash takes the acks of the last second",
        member(member(three()).get("m", "a", 1).ack("m", 1), "n").get("n", "a", 1)),
    ("ack came back", "the commit did not end well",
        member(member(three()).get("m", "a", 1).ack("m", 1).commit("m", outcome="unknown"), "n").get("n", "a", 1)),
    ("ack came back", "the partition had gone when it was acked",
        member(member(three()).get("m", "a", 1).revoke("m").ack("m", 1).commit("m").leave("m"), "n").get("n", "a", 1)),
    ("ack came back", "a seek of the group forgot it",
        member(three()).get("m", "a", 1).ack("m", 1).commit("m").seek("m", before(1), 1).get("m", "a", 1)),
    ("ack came back", "a seek of a member that shares came before the ack",
        three().open("m", "g", mode="shared").get("m", "a", 1).seek("m", EARLIEST).ack("m", 1).commit("m")
        .open("n", "g", mode="shared").get("n", "a", 1)),
    ("ack came back", "another member had moved what they share meanwhile",
        three().open("m", "g", mode="shared").open("n", "g", mode="shared").get("m", "a", 1).seek("n", EARLIEST)
        .ack("m", 1).commit("m").get("n", "a", 1)),
    ("ack came back", "a member hands out what it had before another acked it, and does not know yet",
        member(member(story().sent(a=1)), "n").get("n", "a", 1).ack("n", 1).commit("n").get("m", "a", 1)),
    ("ack came back", "hand-overs are invisible, and it was committed while the member opened",
        member(story(assignment_events=False).sent(a=1), "n").get("n", "a", 1).ack("n", 1).open("m", "g").commit("n")
        .assign("m").get("m", "a", 1)),
    ("ack came back", "another group had acked it",
        member(member(three()).get("m", "a", 1).ack("m", 1).commit("m").leave("m"), "n", "h").get("n", "a", 1)),
    ("ack came back", "a part of its entry was not acked",
        member(entries().leave("m"), "n").get("n", "a", (7, 0))),
    ("seek landed wrong", "it begins there", three().open("r").seek("r", before(2), 2).get("r", "b", 2)),
    ("seek landed wrong", "what was sent meanwhile may come or not",
        three().send("d", 4, since=3 * STEP, until=6 * STEP).open("r", start=LATEST).get("r", "d", 4)),
    ("seek landed wrong", "retention took what EARLIEST would be",
        three().trim(2).open("r").get("r", "b", 2)),
    ("seek landed wrong", "a start at an id of another partition leaves this one at EARLIEST",
        three().open("r", start=before(9, partition=1)).get("r", "a", 1)),
    ("seek landed wrong", "the last two",
        three().open("r", start=last(2)).get("r", "b", 2)),
    ("seek landed wrong", "retention took the first message of that time, and an older one follows",
        out_of_order().open("r", start=from_time(7)).get("r", "d", 4, log_time=8)),
    ("position went down", "a seek came between",
        member(three()).get("m", "a", 1).get("m", "b", 2).ack("m", 2, through=True).stands("g", 3)
        .seek("m", before(2), 2).stands("g", 2)),
    (
        "watermark went down",
        "a kill undid a trim",
        story().sent(a=1, b=2).marks(2, 5).disturb("kill").marks(1, 5).final(a=1, b=2),
    ),
    ("watermark went down", "the questions overlapped", story().marks(1, 5).marks(1, 4, since=0)),
    ("wrong watermark", "the question was put before the send had ended",
        story().send("a", 3, since=0, until=50).marks(1, 3, since=20, until=60)),
    ("wrong watermark", "no lag, and all is acked",
        member(three()).get("m", "a", 1).get("m", "b", 2).get("m", "c", 3).ack("m", 3, through=True).lag("g", 0)),
    ("broke", "an error that says what is wrong", three().fail_to_receive("r")),
    ("unfinished", "the end was read", three().final(a=1, b=2, c=3)),
]  # fmt: skip


def _names(table):
    return [f"{kind}: {what}" for kind, what, _ in table]


@pytest.mark.parametrize(("kind", "what", "told"), GUILTY, ids=_names(GUILTY))
def test_each_anomaly_is_found(kind, what, told):
    """A history with one forbidden event shows that kind of anomaly."""
    assert kind in {anomaly.kind for anomaly in check(told.history)}


@pytest.mark.parametrize(("kind", "what", "told"), INNOCENT, ids=_names(INNOCENT))
def test_its_neighbour_is_innocent(kind, what, told):
    """A nearly equal, legal history shows no anomaly at all."""
    assert [str(anomaly) for anomaly in check(told.history)] == []


def test_each_kind_has_both():
    """Each kind of anomaly has a history that shows it, and one that does not."""
    assert {kind for kind, *_ in GUILTY} == {kind for kind, *_ in INNOCENT} == set(KINDS)


@pytest.mark.parametrize(("kind", "what", "told"), GUILTY, ids=_names(GUILTY))
def test_what_is_shown_is_short_and_enough(kind, what, told):
    """A shrunk history has fewer than ten events, and still shows the same anomaly."""
    anomaly = next(each for each in check(told.history) if each.kind == kind)
    shortest = shrink(told.history, anomaly)
    assert len(shortest) < 10
    assert anomaly.key in {each.key for each in check(told.history.only(shortest))}


def test_a_long_history_is_shrunk():
    """A history of a thousand events shrinks to the few that show the anomaly."""
    made = story().sent(**{f"v{number}": number for number in range(400)}).open("r")
    for number in range(400):
        made.get("r", f"v{number}", number)
        if number == 200:
            made.get("r", "v77", 77)
    (anomaly,) = check(made.history)
    assert (anomaly.kind, anomaly.id) == ("rewound", (77,))
    assert [type(event.did).__name__ for event in shrink(made.history, anomaly)] == [
        "ConsumerOpened",
        "MessageReceived",
        "MessageReceived",
    ]


@pytest.mark.parametrize(("kind", "what", "told"), GUILTY + INNOCENT, ids=_names(GUILTY + INNOCENT))
def test_a_history_survives_its_file(kind, what, told, tmp_path):
    """A history that is saved as JSON lines and read again is the same."""
    told.history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl") == told.history


def test_a_file_of_another_version_is_refused(tmp_path):
    """A file that is not a history of this version is refused with its version."""
    (tmp_path / "history.jsonl").write_text('{"mqplug-history": 99}\n')
    with pytest.raises(ValueError, match="99"):
        History.load(tmp_path / "history.jsonl")
