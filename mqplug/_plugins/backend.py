"""A typed façade over the hook calls of one client.

It adds the context to errors, and converts errors that drivers must not raise to a ``PluginError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, TypeVar, cast

import attrs

from mqplug._base.deadline import Deadline
from mqplug._model.errors import Error, PluginError, Timeout, Unsupported
from mqplug._model.log import GroupDescription, Log
from mqplug._model.position import Bounds, Position, Watermarks
from mqplug._plugins.hooks import Hooks, check_version
from mqplug.spi._actions import (
    Action,
    AddPartitions,
    AlterTopic,
    ClusterInfo,
    ConsumerOptions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeCluster,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    DiscardStaged,
    GroupInfo,
    GroupPosition,
    Ingest,
    Ingested,
    ListGroups,
    ListTopics,
    ProducerOptions,
    Staged,
    SymbolicStart,
    TopicInfo,
    TransactionOptions,
    Trim,
    action_name,
)
from mqplug.spi._descriptor import Capabilities, Descriptor
from mqplug.spi._drivers import Connection, ConsumerDriver, Listener, ProducerDriver, StageDriver, TransactionDriver

T = TypeVar("T")

NO_TIMEOUT_S = 3600.0  # a driver's timeout when the caller waits forever


class Backend:
    """One backend and the extensions around it, and its connection once there is one."""

    connection: Connection

    def __init__(self, name: str, plugin: object, extensions: Sequence[object] = ()) -> None:
        self.name = name
        self._hooks = Hooks(name, plugin, extensions)
        self._hook = self._hooks.call
        self.descriptor = self._describe()

    def connect(self, settings: Any, deadline: Deadline) -> Backend:
        """Return this backend with a connection."""
        with self.context("connect"):
            made = self._ask("mqplug_connect", settings=settings, timeout=_left(deadline))
            return self.over(_driver(Connection, made))

    def over(self, connection: Connection) -> Backend:
        """Return this backend with the given connection."""
        connected = copy(self)
        connected.connection = connection
        return connected

    def open_producer(self, options: ProducerOptions, deadline: Deadline) -> ProducerDriver:
        with self.context("open a producer"):
            return _driver(ProducerDriver, self._request("mqplug_open_producer", deadline, options=options))

    def open_consumer(self, options: ConsumerOptions, listener: Listener, deadline: Deadline) -> ConsumerDriver:
        from mqplug.spi.proxies import ListenerRelay

        relay = ListenerRelay(listener)
        with self.context("open a consumer", topic=options.logs[0].topic):
            opened = self._request("mqplug_open_consumer", deadline, options=options, listener=relay)
            return _driver(ConsumerDriver, opened)

    def open_stage(self, topic: TopicInfo, deadline: Deadline) -> StageDriver:
        with self.context("stage", topic=topic.name):
            return _driver(StageDriver, self._request("mqplug_open_stage", deadline, topic=topic))

    def open_transactions(self, options: TransactionOptions, deadline: Deadline) -> TransactionDriver:
        with self.context("transaction"):
            return _driver(TransactionDriver, self._request("mqplug_open_transactions", deadline, options=options))

    def resolve(self, start: SymbolicStart, logs: Sequence[Log], deadline: Deadline) -> Mapping[Log, Position]:
        if not logs:
            return {}
        with self.context("seek", topic=logs[0].topic):
            found = self._request("mqplug_resolve_start", deadline, start=start, logs=logs)
            return cast(Mapping[Log, Position], found)

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], deadline: Deadline) -> None:
        with self.context("move a group"):
            self._request("mqplug_move_group", deadline, group=group, positions=positions)

    def watermarks(
        self, logs: Sequence[Log], since: Mapping[Log, Position] | None, deadline: Deadline
    ) -> Mapping[Log, Watermarks]:
        if not logs:
            return {}
        with self.context("watermarks", topic=logs[0].topic):
            found = self._request("mqplug_watermarks", deadline, logs=logs, since=since)
            return cast(Mapping[Log, Watermarks], found)

    def bounds(self, logs: Sequence[Log], deadline: Deadline) -> Mapping[Log, Bounds]:
        with self.context("bounds", topic=logs[0].topic):
            return cast(Mapping[Log, Bounds], self._request("mqplug_bounds", deadline, logs=logs))

    def create_topic(self, action: CreateTopic, deadline: Deadline) -> TopicInfo:
        return cast(TopicInfo, self._administer(action, deadline, action.topic))

    def alter_topic(self, action: AlterTopic, deadline: Deadline) -> TopicInfo:
        return cast(TopicInfo, self._administer(action, deadline, action.topic))

    def delete_topic(self, topic: str, deadline: Deadline) -> None:
        self._administer(DeleteTopic(topic), deadline, topic)

    def list_topics(self, deadline: Deadline, pattern: str | None = None) -> list[str]:
        return list(self._administer(ListTopics(pattern), deadline))

    def add_partitions(self, action: AddPartitions, deadline: Deadline) -> None:
        self._administer(action, deadline, action.topic)

    def topic(self, topic: str, deadline: Deadline) -> TopicInfo:
        return cast(TopicInfo, self._administer(DescribeTopic(topic), deadline, topic))

    def topics(self, topics: Sequence[str], deadline: Deadline) -> Sequence[TopicInfo]:
        if len(topics) > 1:
            with suppress(Unsupported):  # an optional action
                return cast(Sequence[TopicInfo], self._administer(DescribeTopics(tuple(topics)), deadline))
        return [self.topic(topic, deadline) for topic in topics]

    def cluster(self, deadline: Deadline) -> ClusterInfo:
        return cast(ClusterInfo, self._administer(DescribeCluster(), deadline))

    def list_groups(self, topic: str | None, deadline: Deadline) -> list[GroupInfo]:
        return list(self._administer(ListGroups(topic), deadline, topic))

    def describe_group(self, group: str, deadline: Deadline) -> GroupDescription:
        return cast(GroupDescription, self._administer(DescribeGroupMembers(group), deadline))

    def delete_group(self, group: str, deadline: Deadline) -> None:
        self._administer(DeleteGroup(group), deadline)

    def group_positions(self, group: str, logs: Sequence[Log], deadline: Deadline) -> Mapping[Log, GroupPosition]:
        if not logs:
            return {}
        found = self._administer(DescribeGroup(group, tuple(logs)), deadline, logs[0].topic)
        return cast(Mapping[Log, GroupPosition], found)

    def trim(self, before: Mapping[Log, Position], deadline: Deadline) -> None:
        self._administer(Trim(before), deadline, next(iter(before)).topic)

    def ingest(self, action: Ingest, deadline: Deadline) -> Ingested:
        return cast(Ingested, self._administer(action, deadline, action.staged[0].topic))

    def discard(self, staged: tuple[Staged, ...], deadline: Deadline) -> None:
        self._administer(DiscardStaged(staged), deadline, staged[0].topic)

    def _administer(self, action: Action, deadline: Deadline, topic: str | None = None) -> Any:
        with self.context(action_name(type(action)).replace("_", " "), topic=topic):
            return self._request("mqplug_administer", deadline, action=action)

    def _request(self, hook: str, deadline: Deadline, **arguments: Any) -> Any:
        """Return the result of a hook that needs the connection."""
        return self._ask(hook, connection=self.connection, timeout=_left(deadline), **arguments)

    def _ask(self, hook: str, **arguments: Any) -> Any:
        """Return a hook's result. Raise ``PluginError`` if no plugin gave one."""
        answer = getattr(self._hook, hook)(**arguments)
        if answer is None:
            raise PluginError(
                f"no plugin answered {hook}",
                fix="Implement the hook in the plugin, and return the result of yield in each extension that wraps it",
            )
        return answer

    @contextmanager
    def context(self, operation: str, topic: str | None = None) -> Iterator[None]:
        """Add backend, topic and operation to errors. A driver's stray exception becomes a ``PluginError``."""
        try:
            yield
        except Error as error:
            error.at(backend=self.name, topic=topic, operation=operation)
            raise
        except Exception as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # within Condition.wait, which then lacks its lock
                raise error.__context__ from None
            extension = self._hooks.extension_of(error)
            if extension is None and isinstance(error, TypeError | ValueError):
                raise
            raise self._defect(error, extension, topic, operation) from error

    def _describe(self) -> Descriptor:
        try:
            return _checked(self.name, self._hook.mqplug_describe())
        except Error:
            raise
        except Exception as error:
            raise self._defect(error, self._hooks.extension_of(error), None, "describe") from error

    def _defect(self, error: Exception, extension: str | None, topic: str | None, operation: str) -> PluginError:
        kind = "plugin" if extension is None else "extension"
        return PluginError(
            f"{extension or 'the driver'} raised {type(error).__name__}: {error}",
            backend=self.name, topic=topic, operation=operation, fix=f"Report this defect to the authors of the {kind}",
        )  # fmt: skip


def _left(deadline: Deadline) -> float:
    """Return the seconds for a driver. Raise ``Timeout`` if the deadline has passed, except for a poll of 0."""
    left = deadline.remaining(NO_TIMEOUT_S)
    if left <= 0 and deadline.timeout:
        raise Timeout(f"the timeout of {deadline.timeout:g} s ran out", fix="Pass a longer timeout")
    return left


def _driver(kind: type[T], driver: Any) -> T:
    """Return a driver. Raise ``PluginError`` unless it is derived from its base class, or has all of its members."""
    if not isinstance(driver, kind):
        lacks = [name for name in dir(kind) if not name.startswith("_") and not hasattr(driver, name)]
        if lacks:
            raise PluginError(
                f"{type(driver).__name__} has no {', '.join(lacks)}",
                fix=f"Derive it from mqplug.spi.{kind.__name__}, which has defaults",
            )
    return cast(T, driver)


def _checked(name: str, descriptor: object) -> Descriptor:
    """Return a plugin's descriptor if it is valid."""
    if descriptor is None:
        raise PluginError(f"the plugin for {name!r} has no mqplug_describe", backend=name)
    if not isinstance(descriptor, Descriptor):
        raise PluginError(
            f"mqplug_describe of the plugin for {name!r} must return a Descriptor, not {type(descriptor).__name__}",
            backend=name,
        )
    if descriptor.name != name:
        raise PluginError(f"the descriptor of the plugin {name!r} has another name, {descriptor.name!r}", backend=name)
    check_version("backend", name, descriptor.api_version)
    fits = {
        "settings": attrs.has(descriptor.settings),
        "capabilities": isinstance(descriptor.capabilities, Capabilities),
        "from_url": callable(descriptor.from_url),
    }
    if wrong := [field for field, good in fits.items() if not good]:
        raise PluginError(f"the descriptor of the plugin for {name!r} has wrong {' and '.join(wrong)}", backend=name)
    return descriptor
