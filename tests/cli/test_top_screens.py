"""The screens of ``mqplug top``, driven with textual's pilot."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import pytest

import mqplug

pytest.importorskip("textual", reason="mqplug[top] is not installed")

from mqplug.cli._top.app import TopApp
from mqplug.cli._top.subject import Subject

EVERY_S = 0.1
WAIT_S = 20


@pytest.fixture
def mq(request):
    """A client of a store in memory with topics and a group that lags."""
    with mqplug.connect(f"memory://{request.function.__name__}") as client:
        client.create_topic("orders", partitions=2)
        client.create_topic("refunds")
        with client.producer("orders") as out:
            out.send_many([b"x"] * 30)
        client.reset_group("billing", "orders", mqplug.EARLIEST)
        yield client


def texts(app):
    """The texts on the screen, as a screenshot has them."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", app.export_screenshot(), re.DOTALL)
    return unescape(" ".join(found)).replace("\xa0", " ")


async def until_seen(pilot, *wanted):
    """Wait until all of these texts are on the screen."""

    async def look():
        while any(each not in texts(pilot.app) for each in wanted):
            await pilot.pause(0.02)

    try:
        await asyncio.wait_for(look(), WAIT_S)
    except TimeoutError:
        pytest.fail(f"{wanted} is not in {texts(pilot.app)}")


def drive(mq, steps, *, size=(110, 30), read_only=False):
    """Run top, do the steps with its pilot, and return the exit code."""
    subject = Subject(mq, "memory://test", ("memory://test",), 10, read_only)
    app = TopApp(subject, EVERY_S)

    async def run():
        async with app.run_test(size=size) as pilot:
            await until_seen(pilot, "orders")
            await steps(pilot)

    asyncio.run(run())
    return app.return_value


def test_topics_groups_and_lag_are_seen(mq):
    """The first screen has the topics with their messages, the groups with their lag, and the sums."""

    async def steps(pilot):
        await until_seen(pilot, "2 topics", "3 partitions", "1 group", "refunds", "billing", "30")
        with mq.producer("orders") as out:
            out.send_many([b"x"] * 1000)
        await until_seen(pilot, "1,030", "█")
        await pilot.press("q")

    assert drive(mq, steps) == 0


def test_names_are_filtered_while_they_are_typed(mq):
    """A slash opens a field; rows without its text disappear, and Escape brings them back."""

    async def steps(pilot):
        await pilot.press("slash", *"refund")
        await pilot.pause()
        assert [row.key for row in pilot.app.screen.topics.rows] == ["refunds"]
        await pilot.press("escape")
        await pilot.pause()
        assert [row.key for row in pilot.app.screen.topics.rows] == ["orders", "refunds"]

    drive(mq, steps)


def test_the_order_is_seen(mq):
    """The key o orders by the next column, and the first line says which."""

    async def steps(pilot):
        for order in ("in", "out", "lag"):
            await pilot.press("o")
            await until_seen(pilot, f"by {order}")

    drive(mq, steps)


def test_the_cursor_stays_on_its_topic(mq):
    """New topics above the cursor do not move it to another name."""

    async def steps(pilot):
        await pilot.press("down")
        mq.create_topic("aaa")
        await until_seen(pilot, "aaa")
        assert pilot.app.screen.topics.cursor_key == "refunds"

    drive(mq, steps)


def test_an_outage_is_seen_and_passes(mq, monkeypatch):
    """While the backend does not answer, the reason is shown beside what was known; then it goes on."""

    async def steps(pilot):
        with monkeypatch.context() as patch:
            patch.setattr(mq, "watermarks", _refuse)
            await until_seen(pilot, "no answer for", "the server is gone", "orders")
        await until_seen(pilot, "2 topics")

    drive(mq, steps)


def _refuse(*args, **options):
    raise mqplug.ConnectError("the server is gone")


def test_a_defect_ends_it_and_is_told(mq, monkeypatch):
    """What is no error of a backend ends top, and is kept for the command to tell."""
    app = TopApp(Subject(mq, "memory://test"), EVERY_S)
    monkeypatch.setattr(mq, "topics", lambda **_: 1 / 0)

    async def run():
        async with app.run_test() as pilot, asyncio.timeout(WAIT_S):
            while app.defect is None:
                await pilot.pause(0.02)

    asyncio.run(run())
    assert (app.return_value, type(app.defect)) == (1, ZeroDivisionError)


def test_a_thousand_topics_are_scrolled_line_by_line(mq):
    """With a thousand topics the end is reached by one key, and only the visible rows are drawn."""
    for number in range(1000):
        mq.create_topic(f"topic{number:04}")

    async def steps(pilot):
        await until_seen(pilot, "1,002 topics")
        await pilot.press("end")
        await until_seen(pilot, "topic0999")
        assert "topic0001" not in texts(pilot.app)

    drive(mq, steps)


def test_a_narrow_terminal_leaves_columns_out(mq):
    """In forty columns names and numbers are there, and the bars are left out."""

    async def steps(pilot):
        await until_seen(pilot, "orders", "PARTITIONS")
        assert "IN, BEFORE" not in texts(pilot.app)

    drive(mq, steps, size=(40, 20))
