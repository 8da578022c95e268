"""Choosing a backend: names, URLs, mappings, and their errors."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug.spi import Capabilities, Descriptor, hookimpl


@pytest.mark.parametrize(
    "target",
    ["memory", "memory://shared-by-name", {"backend": "memory"}, {"backend": "memory", "name": "shared-by-name"}],
)
def test_a_backend_is_named_in_three_ways(target: object) -> None:
    """A name, a URL and a mapping all open the backend."""
    with mqplug.connect(target) as mq:  # type: ignore[arg-type]
        assert mq.backend == "memory"


def test_a_url_and_keywords_say_the_same() -> None:
    """A store name in a URL means the same as the keyword."""
    with mqplug.connect("memory://one-store") as one, mqplug.connect("memory", name="one-store") as other:
        one.create_topic("orders")
        assert other.topics() == ["orders"]
        one.delete_topic("orders")


@pytest.mark.parametrize(
    ("target", "settings", "reason"),
    [
        ("memory", {"nam": "x"}, "unknown setting 'memory.nam'.*Did you mean 'memory.name'"),
        ("memory", {"name": 5}, "'memory.name': expected str, not int"),
        ("memory", {"message_max_bytes": "many"}, "'memory.message_max_bytes': expected int, not str"),
        ("memory", {"message_max_bytes": -1}, "'memory.message_max_bytes'"),
        ("memory://x?message_max_bytes=many", {}, "'memory.message_max_bytes': expected int"),
        ("memory://x?nam=y", {}, "unknown setting 'memory.nam'"),
        ("://x", {}, "is not a URL"),
        ("kafak", {}, "Did you mean 'kafka'"),
        ("nothing-of-the-kind", {}, "Use one of .*memory"),
        ("nats", {}, "unknown backend 'nats'.*Use one of .*kafka"),
        ({}, {}, "no backend was named"),
        ({"name": "x"}, {}, "no backend was named.*'name' belongs to no backend"),
    ],
)
def test_wrong_settings_are_named(target: object, settings: dict[str, object], reason: str) -> None:
    """A setting that is unknown, of the wrong type or missing raises a ConfigError that names it."""
    with pytest.raises(mqplug.ConfigError, match=reason):
        mqplug.connect(target, **settings)  # type: ignore[arg-type]


def test_a_missing_plugin_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known backend that is not installed is reported with its distribution."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    with pytest.raises(mqplug.PluginError, match="pip install mqplug-kafka"):
        mqplug.connect("kafka://localhost:9092")


def test_a_password_in_a_broken_url_is_not_shown() -> None:
    """An error about a URL shows neither its password nor its query."""
    with pytest.raises(mqplug.Error) as caught:
        mqplug.connect("nosuch://user:hunter2@host/topic?token=hunter3")
    assert "hunter" not in str(caught.value)


@attrs.frozen
class NoSettings:
    """A settings class without settings."""


def a_plugin(name: str, api_version: int) -> object:
    """Return a plugin that only describes itself."""

    class Plugin:
        @hookimpl
        def mqplug_describe(self) -> Descriptor:
            return Descriptor(
                name=name,
                settings=NoSettings,
                capabilities=Capabilities(),
                from_url=lambda url: {},
                api_version=api_version,
            )

    return Plugin()


@pytest.mark.parametrize(("version", "advice"), [(7, "upgrade mqplug$"), (-7, "Upgrade the backend 'registered'$")])
def test_a_plugin_of_another_interface_version_is_refused(version: int, advice: str) -> None:
    """A plugin that is too new or too old is reported with the side to upgrade."""
    with (
        mqplug.register("registered", a_plugin("registered", version)),
        pytest.raises(mqplug.PluginError, match=advice),
    ):
        mqplug.connect("registered")


def test_a_misspelt_hook_is_the_plugins_failure() -> None:
    """A hook implementation without a spec is named when the plugin is opened."""

    class Plugin:
        @hookimpl
        def mqplug_conect(self) -> None:
            """Implement a misspelt hook."""

    with mqplug.register("misspelt", Plugin()), pytest.raises(mqplug.PluginError, match="mqplug_conect"):
        mqplug.connect("misspelt")


def test_a_stray_exception_of_a_driver_is_wrapped() -> None:
    """An exception that a driver must not raise becomes a PluginError, with the original as its cause."""

    class Plugin:
        @hookimpl
        def mqplug_describe(self) -> Descriptor:
            return Descriptor(name="stray", settings=NoSettings, capabilities=Capabilities(), from_url=lambda url: {})

        @hookimpl
        def mqplug_connect(self) -> None:
            raise KeyError("native")

    with mqplug.register("stray", Plugin()), pytest.raises(mqplug.PluginError, match="KeyError") as caught:
        mqplug.connect("stray")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.operation == "connect"


@attrs.frozen(kw_only=True)
class StoreSettings:
    """Settings of a backend that creates missing stores."""

    create: bool = attrs.field(default=True, metadata={"creates": True})


@pytest.mark.parametrize(
    ("settings", "must_exist", "creates"), [({}, True, False), ({}, False, True), ({"create": True}, True, True)]
)
def test_a_store_that_must_exist_is_not_created(settings: dict[str, bool], must_exist: bool, creates: bool) -> None:
    """With must_exist the setting that creates a missing store is false, unless it is given."""
    asked = []

    class Plugin:
        @hookimpl
        def mqplug_describe(self) -> Descriptor:
            return Descriptor(
                name="storing", settings=StoreSettings, capabilities=Capabilities(), from_url=lambda url: {}
            )

        @hookimpl
        def mqplug_connect(self, settings: StoreSettings) -> None:
            asked.append(settings.create)
            raise mqplug.ConnectError("that was all")

    with mqplug.register("storing", Plugin()), pytest.raises(mqplug.ConnectError, match="that was all"):
        mqplug.connect("storing", must_exist=must_exist, **settings)
    assert asked == [creates]


@attrs.frozen
class Reached:
    """The address of a server."""

    servers: list[str] = attrs.field(metadata={"address": True})
    name: str = "x"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("nobody answers", "nobody answers, at x://...@one:1, two:2"),
        ("two:2 is silent", "two:2 is silent"),
        ("one:1 is silent", "one:1 is silent"),
    ],
)
def test_who_is_not_reached_is_named(said: str, expected: str) -> None:
    """The core adds the address to a ConnectError, without its login, unless the driver named it."""

    class Plugin:
        @hookimpl
        def mqplug_describe(self) -> Descriptor:
            return Descriptor(name="far", settings=Reached, capabilities=Capabilities(), from_url=lambda url: {})

        @hookimpl
        def mqplug_connect(self) -> None:
            raise mqplug.ConnectError(said)

    with mqplug.register("far", Plugin()), pytest.raises(mqplug.ConnectError) as caught:
        mqplug.connect("far", servers=["x://me:hunter2@one:1", "two:2"])
    assert caught.value.message == expected
