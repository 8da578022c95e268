"""A member hands out no message that others may have by now, however late it notices the change."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from owner_takeover import HOLDER, killed, take
from rocksmq_stores import freeze, line, nightly, python

import mqplug
from mqplug_rocksmq._processes import member_tokens
from mqplug_rocksmq._processes.member_tokens import MemberTokens, token_check

COUNT = 5000  # more than the member gets at once, so that messages wait in each place where they can

MEMBER = """
receive = {
    "receive": lambda: member.receive(5),
    "iterate": lambda: next(messages),
    "receive_many": lambda: next(iter(member.receive_many(1, 5)), None),
}[sys.argv[2]]
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("orders", group="g") as member:
    messages = iter(member)
    message = receive()
    member.ack(message)
    print(message.value.decode(), flush=True)
    for line in sys.stdin:
        message = receive()
        print(message.value.decode(), flush=True)
        if message.value == b"probe":
            break
"""


@contextmanager
def stopped_member(path: Path, way: str) -> Iterator[subprocess.Popen[str]]:
    """A member in another process, suspended after it has handed out its first message."""
    with python(MEMBER, path, way) as member:
        assert line(member) == "0"
        freeze(member)
        yield member


def wakes(member: subprocess.Popen[str]) -> str:
    """Resume a member, and return the next message it receives."""
    member.send_signal(signal.SIGCONT)
    assert member.stdin is not None
    member.stdin.write("\n")
    member.stdin.flush()
    return line(member)


def fill(mq: mqplug.Client) -> None:
    """Send the numbers from 0 on to a new topic."""
    mq.create_topic("orders", exist_ok=True)
    with mq.producer("orders") as out:
        out.send_many([b"%d" % number for number in range(COUNT)])


def do_its_work(mq: mqplug.Client) -> None:
    """Receive everything as another member, ack and commit it, leave, and send one more message."""
    with mq.consumer("orders", group="g") as heir:
        assert [int(message.value or b"") for message in take(heir, COUNT, ack=True)] == list(range(COUNT))
        heir.commit()
    with mq.producer("orders") as out:
        out.send(b"probe")


@pytest.mark.parametrize("way", ["receive", "iterate", *nightly("receive_many")])
def test_after_the_owner_was_killed(path: Path, way: str) -> None:
    """A member does not hand out messages that another member acked after the owner was killed."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            fill(mq)
        with stopped_member(path, way) as member:
            killed(owner)
            with mqplug.connect("rocksmq", path=str(path)) as mq:
                do_its_work(mq)
                assert wakes(member) == "probe"
                assert mq.lag("orders", group="g") == {0: 1}


@pytest.mark.parametrize("way", ["receive_many", *nightly("receive", "iterate")])
def test_after_it_stood_still_for_too_long(path: Path, way: str) -> None:
    """A member that was suspended beyond its session timeout hands out no message that others acked."""
    with mqplug.connect("rocksmq", path=str(path), session_timeout=1.0) as mq:
        fill(mq)
        with stopped_member(path, way) as member:
            do_its_work(mq)
            assert wakes(member) == "probe"
            assert mq.lag("orders", group="g") == {0: 1}


def test_what_is_its_own_it_hands_out(path: Path) -> None:
    """Until another owner follows the killed one, a member hands out its fetched messages."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            fill(mq)
        with stopped_member(path, "iterate") as member:
            killed(owner)
            assert wakes(member) == "1"


# the file ------------------------------------------------------------------------------------------------


def test_a_token_is_of_one_member(tmp_path: Path) -> None:
    """A member without its token holds nothing, even if its place has another member's token."""
    memberships = MemberTokens(tmp_path)
    one = memberships.admit()
    assert one is not None
    holds = token_check(tmp_path, one)
    assert holds()
    memberships.end(one)
    assert not holds()
    other = memberships.admit()
    assert other is not None
    assert other.place == one.place
    assert not holds()
    assert token_check(tmp_path, other)()


def test_a_new_owner_ends_all(tmp_path: Path) -> None:
    """A new owner first removes the tokens that an earlier one left."""
    left = MemberTokens(tmp_path).admit()
    assert left is not None
    holds = token_check(tmp_path, left)
    assert holds()
    MemberTokens(tmp_path)
    assert not holds()


def test_more_members_than_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members beyond the file's capacity get no token until others leave."""
    monkeypatch.setattr(member_tokens, "MAX_CLIENT_CONNECTIONS", 3)
    memberships = MemberTokens(tmp_path)
    first, *_ = [memberships.admit() for _ in range(3)]
    assert memberships.admit() is None
    assert first is not None
    memberships.end(first)
    assert memberships.admit() is not None


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If there is no space for the file, the owner logs it, and members get no token."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        memberships = MemberTokens(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "may hand out messages that others have acked" in caplog.text
    assert memberships.admit() is None
    memberships.close()
