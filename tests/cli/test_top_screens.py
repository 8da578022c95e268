"""The screens of ``mqplug top``, driven by textual's pilot."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from threading import Event

import pytest

import mqplug

pytest.importorskip("textual", reason="mqplug[top] is not installed")

from textual.events import Key

from mqplug_cli._top.app import TopApp
from mqplug_cli._top.model import EMPTY, Subject
from mqplug_cli._top.overview import Overview
from mqplug_cli._top.parts import Answer, SearchField

EVERY_S = 0.1
WAIT_S = 60
LOOK_S = 0.05


@pytest.fixture
def mq(request):
    """A client of a store in memory with topics and a group that lags."""
    with mqplug.connect(f"memory://{request.function.__name__}") as client:
        client.create_topic("orders", partitions=2)
        client.create_topic("refunds")
        with client.producer("orders") as out:
            out.send_many([mqplug.Record(b"x", partition=number % 2) for number in range(30)])
        client.reset_group("billing", "orders", mqplug.EARLIEST)
        yield client


def texts(app):
    """Return the texts on the screen, as a screenshot has them."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", app.export_screenshot(), re.DOTALL)
    return unescape(" ".join(found)).replace("\xa0", " ")


async def until(pilot, true, what):
    """Wait until a condition is true."""

    async def look():
        while not true():
            await pilot.pause(LOOK_S)

    try:
        await asyncio.wait_for(look(), WAIT_S)
    except TimeoutError:
        pytest.fail(f"not {what}, but {texts(pilot.app)}")


async def until_seen(pilot, *wanted):
    """Wait until all of these texts are on the screen."""
    await until(pilot, lambda: all(each in texts(pilot.app) for each in wanted), wanted)


async def until_unseen(pilot, text):
    """Wait until a text has left the screen."""
    await until(pilot, lambda: text not in texts(pilot.app), f"without {text}")


async def press(pilot, *keys, into="topics"):
    """Press keys when the receiving widget has the focus: the one with this id, or of this class.

    The pilot's own ``press`` takes the process for idle when it gets no time on a busy machine.
    """

    def ready():
        focused = pilot.app.focused
        return focused is not None and into in {focused.id, type(focused)}

    await until(pilot, ready, f"in {into}")
    _post(pilot.app, keys)


async def retype(pilot, *keys, into):
    """Press keys in a field after emptying it. Letters typed at once would overtake keys with a binding."""
    await press(pilot, into=into)
    field = pilot.app.focused
    _post(pilot.app, ["backspace"] * len(field.value))
    await until(pilot, lambda: not field.value, "emptied")
    _post(pilot.app, keys)


def _post(app, keys):
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


def drive(mq, steps, *, size=(110, 30), read_only=False):
    """Run top, do the steps with its pilot, and return the exit code."""
    subject = Subject(mq, "memory://test", ("memory://test",), 10, read_only)
    app = TopApp(subject, EVERY_S)

    async def run():
        async with app.run_test(size=size, notifications=True) as pilot:
            await until_seen(pilot, "orders")
            await steps(pilot)
        app.on_top_app_sampled(TopApp.Sampled(EMPTY))  # one that came too late

    asyncio.run(run())
    return app.return_value


def test_topics_groups_and_lag_are_seen(mq):
    """The first screen shows the topics with their messages, the groups with their lag, and the sums."""

    async def steps(pilot):
        await until_seen(pilot, "2 topics", "3 partitions", "1 group", "refunds", "billing", "30")
        with mq.producer("orders") as out:
            out.send_many([b"x"] * 1000)
        await until_seen(pilot, "1,030", "█")
        await press(pilot, "q")
        await until(pilot, lambda: pilot.app.return_value is not None, "ended")

    assert drive(mq, steps) == 0


def test_names_are_filtered_while_they_are_typed(mq):
    """A slash opens a field; rows without its text disappear, and Escape brings them back."""

    async def steps(pilot):
        await press(pilot, "slash")
        await press(pilot, *"refund", into=SearchField)
        await until(pilot, lambda: [row.key for row in pilot.app.screen.topics.rows] == ["refunds"], "filtered")
        await press(pilot, "escape", into=SearchField)
        await until(pilot, lambda: [row.key for row in pilot.app.screen.topics.rows] == ["orders", "refunds"], "all")

    drive(mq, steps)


def test_the_order_is_seen(mq):
    """The key o orders by the next column, which the first line names."""

    async def steps(pilot):
        for order in ("in", "out", "lag"):
            await press(pilot, "o")
            await until_seen(pilot, f"by {order}")

    drive(mq, steps)


def test_the_cursor_stays_on_its_topic(mq):
    """New topics above the cursor do not move it to another name."""

    async def steps(pilot):
        await press(pilot, "down")
        await until(pilot, lambda: pilot.app.screen.topics.cursor_key == "refunds", "on refunds")
        mq.create_topic("aaa")
        await until_seen(pilot, "aaa")
        assert pilot.app.screen.topics.cursor_key == "refunds"

    drive(mq, steps)


def test_an_outage_is_seen_and_passes(mq, monkeypatch):
    """While the backend does not answer, the reason is shown beside the last figures; then updates continue."""

    async def steps(pilot):
        with monkeypatch.context() as patch:
            patch.setattr(mq, "watermarks", _refuse)
            await until_seen(pilot, "no answer for", "the server is gone", "orders")
        await until_seen(pilot, "2 topics")

    drive(mq, steps)


def _refuse(*args, **options):
    raise mqplug.ConnectError("the server is gone")


def test_a_defect_ends_it_and_is_told(mq, monkeypatch):
    """An error that is not a backend's ends top, and is kept for the command to report."""
    monkeypatch.setattr(mq, "describe", lambda *_, **__: 1 / 0)

    async def steps(pilot):
        await press(pilot, "enter")
        await until(pilot, lambda: pilot.app.return_code is not None, "the end")

    with pytest.raises(ZeroDivisionError):
        drive(mq, steps)


def test_a_thousand_topics_are_scrolled_line_by_line(mq):
    """With a thousand topics one key reaches the end, and only the visible rows are drawn."""
    for number in range(1000):
        mq.create_topic(f"topic{number:04}")

    async def steps(pilot):
        await until_seen(pilot, "1,002 topics")
        await press(pilot, "end")
        await until_seen(pilot, "topic0999")
        assert "topic0001" not in texts(pilot.app)

    drive(mq, steps)


def test_a_narrow_terminal_leaves_columns_out(mq):
    """At forty columns names and numbers are shown, and the bars are left out."""

    async def steps(pilot):
        await until_seen(pilot, "orders", "PARTITIONS")
        assert "IN, BEFORE" not in texts(pilot.app)

    drive(mq, steps, size=(40, 20))


def test_a_topic_is_looked_at(mq):
    """Enter opens a topic with its settings, groups and partitions; Escape returns."""

    async def steps(pilot):
        await press(pilot, "enter")
        await until_seen(pilot, "PARTITION", "retention", "billing lags by 30")
        await press(pilot, "escape", into="partitions")
        await until_seen(pilot, "2 topics")

    drive(mq, steps)


def test_a_group_is_looked_at(mq):
    """Tab moves to the groups, and Enter opens one: its members, and its position in each partition."""

    async def steps(pilot):
        await press(pilot, "tab")
        await press(pilot, "enter", into="groups")
        await until_seen(pilot, "billing on orders", "POSITION", "members: none")

    drive(mq, steps)


def test_a_topic_is_followed(mq):
    """The key t shows the last messages and new ones; a search keeps those that contain a text."""

    async def steps(pilot):
        await press(pilot, "down", "t")
        await until_seen(pilot, "no message yet")
        with mq.producer("refunds") as out:
            out.send(b"two chairs", key=b"alice", headers=[("trace", b"abc")])
            out.send(b"a table\n", key=b"bob")
        await until_seen(pilot, "two chairs", "alice", "a table⏎")
        await press(pilot, "slash", into="messages")
        await press(pilot, *"ABC", "enter", into=SearchField)
        await until_seen(pilot, "messages with 'ABC'")
        await until_unseen(pilot, "a table")
        await press(pilot, "enter", into="messages")
        await until_seen(pilot, "header     trace: abc", "10 bytes", "key        alice")

    drive(mq, steps)


def test_a_tail_stands_still(mq):
    """Space freezes the rows while messages come, and releases them again."""

    async def steps(pilot):
        await press(pilot, "down", "t")
        await until_seen(pilot, "no message yet")
        await press(pilot, "space", into="messages")
        await until_seen(pilot, "paused")
        with mq.producer("refunds") as out:
            out.send(b"late")
        with mq.consumer("refunds", start=mqplug.EARLIEST) as probe:
            assert probe.receive(timeout=10).value == b"late"
        assert "late" not in texts(pilot.app)
        await press(pilot, "space", into="messages")
        await until_seen(pilot, "late")

    drive(mq, steps)


def test_a_tail_says_that_it_asks(mq, monkeypatch):
    """Until a topic is known to be empty, its tail says that it is loading."""
    answer = Event()
    receive = mqplug.Consumer.receive_many

    def receive_late(consumer, *arguments, **options):
        assert answer.wait(WAIT_S)
        return receive(consumer, *arguments, **options)

    monkeypatch.setattr(mqplug.Consumer, "receive_many", receive_late)

    async def steps(pilot):
        await press(pilot, "down", "t")
        await until_seen(pilot, "asking …", "refunds")
        assert "no message yet" not in texts(pilot.app)
        answer.set()
        await until_seen(pilot, "no message yet")

    drive(mq, steps)


def test_a_seek_without_a_group_says_why(mq):
    """The key s says how to reach the groups, or that no group exists."""

    async def steps(pilot):
        await press(pilot, "s")
        await until_seen(pilot, "Choose a group first")
        mq.delete_group("billing")
        await until_seen(pilot, "none")
        await press(pilot, "s")
        await until_seen(pilot, "No groups")

    drive(mq, steps)


def test_a_seek_waits_for_the_groups(mq, monkeypatch):
    """Until all groups are queried, the group list and the key s say so."""
    monkeypatch.setattr("mqplug_cli._top.probe.Probe._in_turn", lambda *_: iter(()))

    async def steps(pilot):
        await press(pilot, "tab")
        await press(pilot, "s", into="groups")
        await until_seen(pilot, "Still asking", "asking …")

    drive(mq, steps)


async def open_seek(pilot, *keys):
    """Choose the group, press the key to move it, and these keys."""
    await press(pilot, "tab")
    await press(pilot, "s", into="groups")
    await press(pilot, *keys, into="to")


def test_a_group_is_moved_after_its_dry_run(mq):
    """The key s shows both positions and the equivalent command; typing the group's name moves it."""

    async def steps(pilot):
        await open_seek(pilot, *"latest", "enter")
        await until_seen(pilot, "0 messages come again, and 30 are passed over")
        await until_seen(pilot, "mqplug seek memory://test billing --topic orders --to latest")
        await press(pilot, *"orders", "enter", into="confirmation")
        await until_seen(pilot, "nothing was done: this is not billing")
        assert sum(mq.lag("orders", group="billing").values()) == 30
        await retype(pilot, *"billing", "enter", into="confirmation")
        await until_seen(pilot, "moved billing on orders")
        assert sum(mq.lag("orders", group="billing").values()) == 0
        await press(pilot, "escape", into="confirmation")
        await until_seen(pilot, "2 topics")
        assert pilot.app.commands == ["mqplug seek memory://test billing --topic orders --to latest"]

    drive(mq, steps)


def test_a_group_with_members_is_not_moved(mq):
    """While a member is live its name is shown, and the move cannot be confirmed."""

    async def steps(pilot):
        await open_seek(pilot, *"latest", "enter")
        await until_seen(pilot, "refused while it has members")
        await press(pilot, *"billing", "enter", "escape", into="to")
        await until_seen(pilot, "2 topics")
        assert pilot.app.commands == []

    with mq.consumer("orders", group="billing"):
        drive(mq, steps)


def test_a_topic_is_trimmed_after_its_dry_run(mq):
    """The key x shows how many messages would be removed, and removes them when the topic's name is typed."""

    async def steps(pilot):
        await press(pilot, "x")
        await press(pilot, *"-5", "enter", into="before")
        await until_seen(pilot, "20 messages will be removed", "mqplug trim memory://test orders --before -5")
        await press(pilot, *"orders", "enter", into="confirmation")
        await until_seen(pilot, "removed 20 messages from orders")
        assert sum(marks.count for marks in mq.watermarks("orders").values()) == 10

    drive(mq, steps)


def test_a_topic_is_altered_after_its_dry_run(mq):
    """The key a shows the old and new settings, and changes them when the topic's name is typed."""

    async def steps(pilot):
        await press(pilot, "a")
        await press(pilot, *"7d", "enter", into="retention")
        await until_seen(pilot, "mqplug alter memory://test orders --retention 7d", "--retention")
        await press(pilot, *"orders", "enter", into="confirmation")
        await until_seen(pilot, "altered orders")
        assert mq.describe("orders").retention == 7 * 86400

    drive(mq, steps)


def test_what_was_typed_wrongly_is_told(mq):
    """An invalid place is reported with the valid forms; editing the field discards the plan."""

    async def steps(pilot):
        await open_seek(pilot, *"soon", "enter")
        await until_seen(pilot, "'soon' is not a place in a log")
        await retype(pilot, *"earliest", "enter", into="to")
        await until_seen(pilot, "come again")
        await press(pilot, "shift+tab", into="confirmation")
        await press(pilot, "x", into="to")
        await until_unseen(pilot, "come again")

    drive(mq, steps)


def test_read_only_offers_no_change(mq):
    """With --read-only the keys for changes do nothing."""

    async def steps(pilot):
        await press(pilot, "tab")
        await press(pilot, "s", "x", "a", "o", into="groups")
        await until_seen(pilot, "2 topics", "by in")
        assert "Trim" not in texts(pilot.app)

    drive(mq, steps, read_only=True)


SCREENS = {
    "overview": [],
    "topic": [("topics", "enter")],
    "group": [("topics", "tab"), ("groups", "enter")],
    "tail": [("topics", "t")],
    "change": [("topics", "x")],
}


@pytest.mark.parametrize("keys", SCREENS.values(), ids=SCREENS)
def test_what_comes_while_a_screen_is_removed_is_no_failure(mq, keys):
    """A screen loses its widgets before it closes; samples, answers and keys that arrive then do nothing."""

    async def steps(pilot):
        app, first = pilot.app, pilot.app.screen
        for into, key in keys:
            await press(pilot, key, into=into)
        await until(pilot, lambda: not keys or app.screen is not first, "opened")
        await app.screen.remove_children()
        for question in ("describe", "apply", "plan 0"):
            app.screen.post_message(Answer(question, mqplug.ConnectError("the server is gone")))
        for action in (app.action_seek, app.action_tail, app.action_hurry, app.action_leave_screen):
            app.post_message(TopApp.Sampled(EMPTY))
            await pilot.pause(0)
            action()
        await pilot.pause(0)

    drive(mq, steps)


def test_what_comes_before_a_screen_is_drawn_is_no_failure(mq):
    """A sample and keys may arrive when a screen is open and has no widgets yet."""

    async def steps(pilot):
        for open_next in (pilot.app.action_trim, pilot.app.action_tail):
            open_next()
            pilot.app.on_top_app_sampled(TopApp.Sampled(EMPTY))
            pilot.app.action_leave_screen()
            pilot.app.on_top_app_sampled(TopApp.Sampled(EMPTY))
        pilot.app.push_screen(Overview("memory://test"))
        pilot.app.on_top_app_sampled(TopApp.Sampled(EMPTY))
        pilot.app.action_seek()
        pilot.app.action_trim()
        await until(pilot, lambda: pilot.app.screen.topics.rows, "drawn")

    drive(mq, steps)


def test_the_first_screen_is_not_left(mq):
    """Pressing Escape twice on a topic returns to the first screen and stays there."""

    async def steps(pilot):
        await press(pilot, "enter")
        await until_seen(pilot, "retention")
        pilot.app.action_leave_screen()
        pilot.app.action_leave_screen()
        await until_seen(pilot, "2 topics")

    drive(mq, steps)
