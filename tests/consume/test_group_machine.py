"""The members of a group as a state machine: they come and go, and no message is lost, or given to two of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import mqplug

PARTITIONS = 3
MEMBERS = 3


class Member:
    """One consumer, and the messages that it got since each partition was assigned."""

    def __init__(self, mq: mqplug.Client) -> None:
        self.hand: dict[int, list[mqplug.Message]] = {}
        self.gone: list[mqplug.Message] = []
        self.last: dict[int, mqplug.MessageId | None] = {}
        self.consumer = mq.consumer("t", group="g", on_assigned=self.assigned, on_revoked=self.revoked)

    def assigned(self, logs: Sequence[mqplug.Log]) -> None:
        for log in logs:
            assert log.partition not in self.hand, "it was told twice"
            self.hand[log.partition] = []
            self.last[log.partition] = None

    def revoked(self, logs: Sequence[mqplug.Log]) -> None:
        for log in logs:
            self.gone += self.hand.pop(log.partition)


class GroupMachine(RuleBasedStateMachine):
    """Members that join, receive, ack and leave in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.mq = mqplug.connect("memory")
        self.mq.create_topic("t", partitions=PARTITIONS)
        self.out = self.mq.producer("t")
        self.ids: list[list[mqplug.MessageId]] = [[] for _ in range(PARTITIONS)]
        self.acked: set[mqplug.MessageId] = set()
        self.members: list[Member] = []

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4))
    def send(self, partition: int, count: int) -> None:
        self.ids[partition] += self.out.send_many([mqplug.Record(b"", partition=partition)] * count)

    @precondition(lambda self: len(self.members) < MEMBERS)
    @rule()
    def join(self) -> None:
        self.members.append(Member(self.mq))

    @precondition(lambda self: self.members)
    @rule(choice=st.integers(0, MEMBERS - 1))
    def leave(self, choice: int) -> None:
        self.members.pop(choice % len(self.members)).consumer.close()

    @precondition(lambda self: self.members)
    @rule(choice=st.integers(0, MEMBERS - 1))
    def receive(self, choice: int) -> None:
        member = self.members[choice % len(self.members)]
        message = member.consumer.receive(timeout=0)
        if message is None:
            return
        partition = message.partition
        assert [partition in each.hand for each in self.members].count(True) == 1
        last = member.last[partition]
        waiting = [each for each in self.ids[partition] if each not in self.acked and (last is None or each > last)]
        assert message.id == waiting[0]
        member.last[partition] = message.id
        member.hand[partition].append(message)

    @precondition(lambda self: any(any(each.hand.values()) for each in self.members))
    @rule(choice=st.integers(0, 50))
    def ack(self, choice: int) -> None:
        everything = [(each, hand) for each in self.members for hand in each.hand.values() if hand]
        member, hand = everything[choice % len(everything)]
        message = hand.pop(choice % len(hand))
        member.consumer.ack(message)
        self.acked.add(message.id)

    @precondition(lambda self: any(each.gone for each in self.members))
    @rule()
    def ack_too_late(self) -> None:
        for member in self.members:
            before = member.consumer.late_acks
            for message in member.gone:
                member.consumer.ack(message)
            assert member.consumer.late_acks == before + len(member.gone)
            member.gone.clear()

    def teardown(self) -> None:
        for member in self.members:
            member.consumer.close()
        with self.mq.consumer("t", group="g", until=mqplug.LATEST) as last:
            rest = {message.id for message in last}
        assert rest == {each for ids in self.ids for each in ids} - self.acked
        self.mq.close()


GroupMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.__doc__ = "Whoever comes and goes: each message has one owner, acks hold, and the rest comes back."
