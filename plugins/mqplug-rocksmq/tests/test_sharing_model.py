"""Members that share, compared with a plain list, through any sequence of operations, closing and reopening."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from shared_members import Sharer, jobs, stored

import mqplug
from mqplug import Position
from mqplug.spi import Mode

KEYS = (None, b"a", b"b")
MEMBERS = st.sampled_from("xyz")


class Job:
    """The expected state of a message."""

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self.member: str | None = None
        self.attempt = 1
        self.acked = self.put_off = False

    def free(self) -> None:
        """Make it free for any member."""
        self.member = None
        self.attempt += 1


class SharingMachine(RuleBasedStateMachine):
    """One group on one log. Nothing waits: a delay is endless or zero."""

    mode: Mode = "shared"

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.list: list[Job] = []
        self.members: dict[str, Sharer] = {}
        self.mq = self.connect()
        self.mq.create_topic("jobs")

    def connect(self) -> mqplug.Client:
        return mqplug.connect("rocksmq", path=str(Path(self.folder.name) / "store"), sync="os")

    def member(self, name: str) -> Sharer:
        if name not in self.members:
            self.members[name] = Sharer(self.mq, self.mode)
        return self.members[name]

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5))
    def send(self, keys: list[bytes | None]) -> None:
        jobs(self.mq, len(keys), keys.__getitem__)
        self.list += map(Job, keys)

    @rule(name=MEMBERS, most=st.integers(1, 4))
    def take(self, name: str, most: int) -> None:
        """A member gets the messages that the list allows."""
        expected = []
        for at in self.allowed(name):
            self.list[at].member = name
            expected.append((at, self.list[at].attempt))
            if len(expected) == most:
                break
        assert self.member(name).take(most) == expected

    def allowed(self, name: str) -> Any:
        held_back: set[bytes] = set()
        for at, job in enumerate(self.list):
            if job.acked or job.member is not None:
                continue
            owners = {each.member for each in self.list if each.key == job.key}
            mine = self.mode == "shared" or job.key is None or (job.key not in held_back and owners <= {name, None})
            if mine and not job.put_off:
                yield at
            elif job.key is not None:
                held_back.add(job.key)

    @precondition(lambda self: self.list)
    @rule(name=MEMBERS, data=st.data(), what=st.sampled_from(["ack", "back", "put off"]))
    def settle(self, name: str, data: st.DataObject, what: str) -> None:
        """A member settles messages, including some that it does not have."""
        at = data.draw(st.integers(0, len(self.list) - 1))
        job = self.list[at]
        if what == "ack":
            self.member(name).settle(at)
        else:
            self.member(name).settle(back={at: 0.0 if what == "back" else 3600.0})
        if job.member == name:
            if what == "ack":
                job.acked, job.member = True, None
            else:
                job.free()
                job.put_off = what == "put off"

    @rule(name=MEMBERS)
    def leave(self, name: str) -> None:
        if name in self.members:
            self.members.pop(name).close()
        for job in self.list:
            if job.member == name:
                job.free()

    @rule(name=MEMBERS, at=st.integers(0, 10))
    def seek(self, name: str, at: int) -> None:
        """A member moves the group."""
        at = min(at, len(self.list))
        member = self.member(name)
        member.driver.tend(0)
        member.driver.seek({member.log: Position(member.log, (at,))}, 10)
        for number, job in enumerate(self.list):
            job.acked, job.member, job.attempt, job.put_off = number < at, None, 1, False

    @rule()
    def reopen(self) -> None:
        """All members leave and the store is reopened: attempts and delays are unchanged."""
        for name in list(self.members):
            self.leave(name)
        self.mq.close()
        self.mq = self.connect()

    @invariant()
    def stands_where_the_list_says(self) -> None:
        """On disk, exactly the acked messages count as acked."""
        if not hasattr(self, "list") or not self.members:
            return
        begin, ranges = stored(self.mq)
        found = [at < begin or any(first <= at <= last for first, last in ranges) for at in range(len(self.list))]
        assert found == [job.acked for job in self.list]

    def teardown(self) -> None:
        for member in self.members.values():
            member.close()
        self.mq.close()
        self.folder.cleanup()


class KeySharingMachine(SharingMachine):
    """The same machine, with each key at one member at a time."""

    mode = "key_shared"


SharingMachine.TestCase.settings = KeySharingMachine.TestCase.settings = settings(
    max_examples=8, stateful_step_count=30, deadline=None
)
TestSharing = SharingMachine.TestCase
TestKeySharing = KeySharingMachine.TestCase
