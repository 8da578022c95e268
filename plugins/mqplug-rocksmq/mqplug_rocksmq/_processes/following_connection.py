"""A client's connection to a store: as its owner, or through the process that owns it, from owner to owner."""

from __future__ import annotations

import uuid
from itertools import count
from typing import Any, Final, cast

import attrs

from mqplug import Error, OutcomeUnknown, Timeout
from mqplug.spi import Action, Capabilities, ConsumerOptions, GroupMove, Listener, TopicInfo, TransactionOptions
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.producers import SyncedProducer
from mqplug_rocksmq._driver.stage import RocksMQStage
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit, TransactionalProducer
from mqplug_rocksmq._driver.translation import OffsetArithmetic
from mqplug_rocksmq._engine.directory import examine, expect_database
from mqplug_rocksmq._engine.errors import cannot_open
from mqplug_rocksmq._processes.following_consumer import FollowingConsumer, FollowingMembership
from mqplug_rocksmq._processes.owner import OPEN_RETRY_S, StoreAccess, StoreLocator, close_store, open_or_connect
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.resending import Outlet, ResendingSink, StoreOutlet
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.store import Store

UNWRAP_S: Final = 30.0


class FollowingConnection(StoreLocator, OffsetArithmetic):
    """A connection whose producers and consumers continue when the store gets another owner."""

    @property
    def store_id(self) -> str:
        return self._id

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.at_store(lambda access, _: access.unwrap(kind), UNWRAP_S)

    def open_producer(self, timeout: float) -> SyncedProducer:
        """Open a producer."""
        return SyncedProducer(ResendingSink(self._open_outlet, timeout))

    def _open_outlet(self, producer: bytes, failed: Outlet | None, timeout: float) -> Outlet:
        if failed is not None and failed.access is self.access:
            self.follow(self.access, timeout)
        strict = self.settings.sync == "always"

        def open_there(access: StoreAccess, left: float) -> Outlet:
            if isinstance(access, RemoteConnection):
                outlet: Outlet = access.open_outlet(producer, left, strict=strict)
            else:
                outlet = StoreOutlet(cast("StoreConnection", access).store, producer, strict=strict)
            outlet.access = access
            return outlet

        return self.at_store(open_there, timeout)

    def open_stage(self, topic: TopicInfo, timeout: float) -> RocksMQStage:
        """Open a stage. This process writes its files itself, and asks the owner only for their numbers."""
        return RocksMQStage(self._id, self._path, topic, self.reserve_segment)

    def open_consumer(self, options: ConsumerOptions, listener: Listener, timeout: float) -> FollowingConsumer:
        """Open a consumer that follows the store."""
        return FollowingConsumer(self, options, listener, timeout)

    def open_transactions(self, options: TransactionOptions, timeout: float) -> TransactionalProducer:
        """Take over a transaction name."""
        return TransactionalProducer(self, options.name, timeout, synced=self.settings.sync == "always")

    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error:
        """Commit a transaction once. If the owner ends before it answers, the next one knows the outcome."""
        followed = [
            (move.member.consumer, move.positions)
            for move in commit.moves
            if isinstance(move.member, FollowingMembership)
        ]
        for consumer, positions in followed:
            consumer.expect_transaction(positions)
        commit = commit._replace(moves=[_with_present_member(move) for move in commit.moves])
        outcome = self.at_store(lambda access, left: access.commit_transaction(commit, left), timeout)
        if not isinstance(outcome, OutcomeUnknown | Timeout):
            for consumer, positions in followed:
                consumer.note_transaction(positions, stored=not isinstance(outcome, Error))
        return outcome

    def administer(self, action: Action, timeout: float) -> Any:
        """Carry out an action once, even if its owner ends before it answers: the next owner does not repeat it."""
        request, tries = OnceRequest(uuid.uuid4().bytes), count()
        return self.at_store(
            lambda access, left: access.administer(action, left, request._replace(again=next(tries) > 0)), timeout
        )


def _with_present_member(move: GroupMove) -> GroupMove:
    """Return the move with its member as the store's owner knows it."""
    if not isinstance(move.member, FollowingMembership):
        return move
    return attrs.evolve(move, member=move.member.present)


def connect(
    settings: RocksMQSettings, capabilities: Capabilities, timeout: float
) -> StoreConnection | FollowingConnection:
    """Open the store, or connect to the process that has it open."""
    try:
        examine(settings.directory, create=settings.create)
        expect_database(settings.directory)
        found = open_or_connect(settings.directory, settings, min(timeout, OPEN_RETRY_S))
    except Error:
        raise
    except OSError as error:
        raise cannot_open(settings.directory, error) from error
    capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    if isinstance(found, Store):
        return StoreConnection(found, settings, capabilities, close_store)
    return FollowingConnection(found, settings, capabilities)
