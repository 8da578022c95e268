"""The demo: its verdict is reliable, and it runs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import mqplug
from mqplug_cli import _demo, _killed_writer, run_command
from mqplug_cli._demo import DemoReading, Findings, judge
from mqplug_cli._killed_writer import payload_of


def history():
    """Return a faithful reading: ten messages of two writers on two partitions, as (place, value)."""
    return [
        ((number % 2, (number // 2 + shift,)), payload_of(writer, number))
        for shift, writer in ((0, "one"), (5, "two"))
        for number in range(10)
    ]


def verdict(received, possible=()):
    """Return the findings if these messages were received where `history()` was acknowledged."""
    stored = {value: place for place, value in history()}
    return judge(DemoReading(stored, received, frozenset(possible)))


def test_a_faithful_reading_is_clean():
    """If every message comes once and in order, nothing is found."""
    assert verdict(history()) == Findings()
    assert verdict(history()).clean


@pytest.mark.parametrize("row", [0, 7, 19])
def test_a_missing_message_is_lost(row):
    """An acknowledged message that was not received is lost."""
    received = history()
    del received[row]
    assert verdict(received) == Findings(lost=1)


def test_nothing_received_is_all_lost():
    """An empty reading has lost every message."""
    assert verdict([]) == Findings(lost=20)


@pytest.mark.parametrize("behind", [0, 4, 19])
def test_a_repeated_message_is_twice(behind):
    """A repeated message is counted as a duplicate, at once or later, and not as out of order as well."""
    received = history()
    received.insert(behind + 1, received[behind])
    received.append(received[behind])
    assert verdict(received) == Findings(twice=2)


def test_a_message_stored_twice_is_twice():
    """The same message under a second id is counted as a duplicate."""
    received = history()
    received.append(((0, (99,)), received[4][1]))
    assert verdict(received) == Findings(twice=1)


def test_swapped_messages_are_reordered():
    """Within a partition a later message must not come before an earlier one."""
    received = history()
    received[2], received[4] = received[4], received[2]
    assert verdict(received) == Findings(reordered=1)


def test_order_between_partitions_does_not_matter():
    """Partitions may be read in any order."""
    assert verdict(sorted(history(), key=lambda row: -row[0][0])).clean


def test_a_writer_out_of_order_is_found_though_ids_ascend():
    """A log that stored a writer's messages in another order than they were sent is detected."""
    received = [((0, (0,)), payload_of("one", 1)), ((0, (1,)), payload_of("one", 0))]
    assert judge(DemoReading({value: place for place, value in received}, received)) == Findings(reordered=1)


def test_an_invented_message_is_altered():
    """A message that was never sent is detected, whatever it looks like."""
    assert verdict([*history(), ((0, (50,)), b"\xff\x00")]) == Findings(altered=1)
    assert verdict([*history(), ((0, (50,)), payload_of("one", 77))]) == Findings(altered=1)


def test_a_message_under_another_id_is_altered():
    """A message with another id than its sender got is detected."""
    received = history()
    received[-1] = ((1, (98,)), received[-1][1])
    assert verdict(received) == Findings(altered=1)


def test_what_was_on_its_way_may_be_there_or_not():
    """A message that was not acknowledged when its sender died counts as neither lost nor invented."""
    late = payload_of("two", 10)
    assert verdict(history(), possible=[late]).clean
    assert verdict([*history(), ((0, (10,)), late)], possible=[late]).clean


def test_findings_add_up():
    """The findings of several readings are summed, and altered messages are mentioned only if there are any."""
    total = Findings(lost=1) + Findings(twice=2, altered=3)
    assert str(total) == "1 lost  2 twice  0 reordered  3 altered"
    assert str(Findings()) == "0 lost  0 twice  0 reordered"


def test_the_demo_runs_in_memory(capsys):
    """On memory the demo runs every step except the kill, says so, and succeeds within its ten lines."""
    assert run_command(["demo", "--url", "memory://demo", "--seconds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "0 lost  0 twice  0 reordered"
    assert lines[-1].startswith("verdict     good")
    assert any(line.startswith("killed      nothing") for line in lines)
    assert len(lines) <= 12


def test_its_topic_is_gone_afterwards():
    """The demo deletes its topic."""
    assert run_command(["demo", "--url", "memory://demo-tidy", "--seconds", "0.2"]) == 0
    with mqplug.connect("memory://demo-tidy") as mq:
        assert mq.topics() == []


def test_figures_are_those_of_what_was_received(capsys):
    """The number received equals the number sent, and the members' shares add up to it."""
    assert run_command(["demo", "--url", "memory://demo-sums", "--seconds", "1"]) == 0
    printed = capsys.readouterr().out.replace(",", "")
    sent = int(re.search(r"^sent +(\d+)", printed, re.MULTILINE)[1])
    received, one, two = map(int, re.search(r"^received +(\d+).*\) (\d+) \+ (\d+)", printed, re.MULTILINE).groups())
    assert sent == received == one + two


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lambda messages: messages[1:], "1 lost  0 twice  0 reordered"),
        (lambda messages: [*messages, messages[0]], "0 lost  1 twice  0 reordered"),
    ],
)
def test_a_broken_store_fails_the_demo(monkeypatch, capsys, harm, found):
    """A message that is withheld or repeated fails the demo with exit code 1."""
    faithful = _demo.read_to_end

    def broken(mq, topic, members):
        reading = faithful(mq, topic, members)
        if len(members) == 2:
            reading.messages[:] = harm(reading.messages)
        return reading

    monkeypatch.setattr(_demo, "read_to_end", broken)
    monkeypatch.setattr(_demo, "SEEK_BACK_MESSAGES", 10)
    assert run_command(["demo", "--url", "memory://demo-broken", "--seconds", "0.2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == found
    assert lines[-1].startswith(f"verdict     FAILED: {found}")


def test_another_process_is_killed_while_it_sends(tmp_path, monkeypatch):
    """The acknowledgements that the killed process got are collected, and so are its sends under way."""
    create = "import mqplug\nmq = mqplug.connect('memory://k')\nmq.create_topic('t', partitions=4)\n"
    (tmp_path / "sitecustomize.py").write_text(create)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    killed = _killed_writer.kill_writer("memory://k", "t", 0.1)
    numbers = range(len(killed.acknowledged))
    assert len(numbers) >= 1000
    assert set(killed.acknowledged) == {payload_of("victim", number) for number in numbers}
    assert len(set(killed.acknowledged.values())) == len(numbers)
    assert killed.possible == {payload_of("victim", numbers.stop + number) for number in range(100)}


def test_a_process_that_cannot_send_is_an_error():
    """A writing process that ends by itself is an error; its own output is passed on."""
    with pytest.raises(mqplug.Error, match="TopicNotFound"):
        _killed_writer.kill_writer("memory://k", "nowhere", 0.1)


@pytest.mark.python
@pytest.mark.skipif(find_spec("mqplug_rocksmq") is None, reason="mqplug-rocksmq is not installed")
def test_the_demo_survives_a_kill_on_rocksmq():
    """On RocksMQ the writing process is killed, and no acknowledged message is missing."""
    arguments = [sys.executable, "-m", "mqplug_cli", "demo", "--seconds", "2"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert "killed      -9" in done.stdout
    assert done.stdout.splitlines()[-2] == "0 lost  0 twice  0 reordered"
    place = re.search(r"rocksmq://(/\S+?),", done.stdout)[1]
    assert not Path(place).parent.exists()
