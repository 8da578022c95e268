"""A typed façade over the hook calls of one client.

Here errors get their context, and what no driver may raise becomes a ``PluginError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pluggy

from mqplug._deadline import Deadline
from mqplug._errors import Error, PluginError, Timeout
from mqplug._log import Log
from mqplug._position import Position
from mqplug._watermarks import Bounds, Watermarks
from mqplug.spi import hookspecs
from mqplug.spi._actions import (
    Action,
    ConsumerOptions,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    GroupPosition,
    ListTopics,
    ProducerOptions,
    SymbolicStart,
    TopicInfo,
    Trim,
)
from mqplug.spi._descriptor import API_VERSION, Descriptor
from mqplug.spi._drivers import Connection, ConsumerDriver, Listener, ProducerDriver

NO_END = 3600.0  # the longest that a driver is asked to wait when the caller waits for ever


class Backend:
    """One backend and the extensions around it."""

    def __init__(self, name: str, plugin: object, extensions: Sequence[object] = ()) -> None:
        manager = pluggy.PluginManager("mqplug")
        manager.add_hookspecs(hookspecs)
        for each in (plugin, *extensions):
            _register(manager, name, each)
        self._hook = manager.hook
        self.descriptor = cast(Descriptor, self._hook.mqplug_describe())
        self.name = name
        _check_descriptor(name, self.descriptor)

    def connect(self, settings: Any, deadline: Deadline) -> Connection:
        with self.context("connect"):
            return cast(Connection, self._hook.mqplug_connect(settings=settings, timeout=_left(deadline)))

    def open_producer(self, connection: Connection, options: ProducerOptions, deadline: Deadline) -> ProducerDriver:
        with self.context("open a producer"):
            return cast(
                ProducerDriver,
                self._hook.mqplug_open_producer(connection=connection, options=options, timeout=_left(deadline)),
            )

    def open_consumer(
        self, connection: Connection, options: ConsumerOptions, listener: Listener, deadline: Deadline
    ) -> ConsumerDriver:
        with self.context("open a consumer", topic=options.logs[0].topic):
            return cast(
                ConsumerDriver,
                self._hook.mqplug_open_consumer(
                    connection=connection, options=options, listener=listener, timeout=_left(deadline)
                ),
            )

    def resolve(
        self, connection: Connection, start: SymbolicStart, logs: Sequence[Log], deadline: Deadline
    ) -> Mapping[Log, Position]:
        if not logs:
            return {}
        with self.context("seek", topic=logs[0].topic):
            return cast(
                Mapping[Log, Position],
                self._hook.mqplug_resolve_start(connection=connection, start=start, logs=logs, timeout=_left(deadline)),
            )

    def move_group(
        self, connection: Connection, group: str, positions: Mapping[Log, GroupPosition], deadline: Deadline
    ) -> None:
        with self.context("move a group"):
            self._hook.mqplug_move_group(
                connection=connection, group=group, positions=positions, timeout=_left(deadline)
            )

    def watermarks(
        self, connection: Connection, logs: Sequence[Log], since: Mapping[Log, Position] | None, deadline: Deadline
    ) -> Mapping[Log, Watermarks]:
        if not logs:
            return {}
        with self.context("watermarks", topic=logs[0].topic):
            return cast(
                Mapping[Log, Watermarks],
                self._hook.mqplug_watermarks(connection=connection, logs=logs, since=since, timeout=_left(deadline)),
            )

    def bounds(self, connection: Connection, logs: Sequence[Log], deadline: Deadline) -> Mapping[Log, Bounds]:
        with self.context("bounds", topic=logs[0].topic):
            return cast(
                Mapping[Log, Bounds],
                self._hook.mqplug_bounds(connection=connection, logs=logs, timeout=_left(deadline)),
            )

    def create_topic(self, connection: Connection, action: CreateTopic, deadline: Deadline) -> TopicInfo:
        return cast(TopicInfo, self._administer(connection, action, deadline, action.topic))

    def delete_topic(self, connection: Connection, topic: str, deadline: Deadline) -> None:
        self._administer(connection, DeleteTopic(topic), deadline, topic)

    def list_topics(self, connection: Connection, deadline: Deadline) -> list[str]:
        return list(self._administer(connection, ListTopics(), deadline))

    def topic(self, connection: Connection, topic: str, deadline: Deadline) -> TopicInfo:
        return cast(TopicInfo, self._administer(connection, DescribeTopic(topic), deadline, topic))

    def group_positions(
        self, connection: Connection, group: str, logs: Sequence[Log], deadline: Deadline
    ) -> Mapping[Log, GroupPosition]:
        found = self._administer(connection, DescribeGroup(group, tuple(logs)), deadline, logs[0].topic)
        return cast(Mapping[Log, GroupPosition], found)

    def trim(self, connection: Connection, before: Mapping[Log, Position], deadline: Deadline) -> None:
        self._administer(connection, Trim(before), deadline, next(iter(before)).topic)

    def _administer(self, connection: Connection, action: Action, deadline: Deadline, topic: str | None = None) -> Any:
        with self.context(_spoken(action), topic=topic):
            return self._hook.mqplug_administer(connection=connection, action=action, timeout=_left(deadline))

    @contextmanager
    def context(self, operation: str, topic: str | None = None) -> Iterator[None]:
        """Errors from within say where they happened; a driver's stray exception becomes a ``PluginError``."""
        try:
            yield
        except Error as error:
            error.at(backend=self.name, topic=topic, operation=operation)
            raise
        except (TypeError, ValueError):
            raise
        except Exception as error:
            raise PluginError(
                f"the driver raised {type(error).__name__}: {error}",
                backend=self.name, topic=topic, operation=operation, fix="This is a defect of the plugin: report it",
            ) from error  # fmt: skip


def _left(deadline: Deadline) -> float:
    """The seconds that a driver gets; a deadline that has passed already is a ``Timeout``, but for a poll of 0."""
    left = deadline.remaining(NO_END)
    if left <= 0 and deadline.timeout:
        raise Timeout(f"the timeout of {deadline.timeout:g} s ran out", fix="Allow more time")
    return left


def _register(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    try:
        manager.register(plugin)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"the plugin for {name!r} has a hook that does not fit: {error}", backend=name) from error


def _check_descriptor(name: str, descriptor: Descriptor | None) -> None:
    if descriptor is None:
        raise PluginError(f"the plugin for {name!r} does not describe itself", backend=name)
    if descriptor.name != name:
        raise PluginError(f"the plugin installed as {name!r} calls itself {descriptor.name!r}", backend=name)
    if not API_VERSION - 1 <= descriptor.api_version <= API_VERSION:
        older = descriptor.api_version < API_VERSION
        raise PluginError(
            f"the plugin {name!r} speaks version {descriptor.api_version} of the interface, this is {API_VERSION}",
            backend=name,
            fix=f"Run pip install --upgrade {f'mqplug-{name}' if older else 'mqplug'}",
        )


def _spoken(action: Action) -> str:
    """``CreateTopic`` as ``create topic``."""
    name = type(action).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
