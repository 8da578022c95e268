"""Backends with the settings of real ones that keep their messages in memory, for tests of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal

import attrs
import pytest

import mqplug
import mqplug.memory
from mqplug.spi import Capabilities, Descriptor, Url, hookimpl


@attrs.frozen(kw_only=True)
class Sasl:
    """``username`` and ``password`` belong together."""

    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class RocksMQ:
    """``path`` is the directory. ``sync`` says when a send is done."""

    path: str = attrs.field(validator=attrs.validators.min_len(1), metadata={"address": True})
    sync: Literal["always", "interval", "os"] = "always"
    interval: float = attrs.field(default=0.1, validator=attrs.validators.gt(0))
    retention: float | timedelta | None = None
    retention_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Pulsar:
    """``service_url`` is where the broker is. ``token`` is secret."""

    service_url: str = attrs.field(default="pulsar://127.0.0.1:6650", metadata={"address": True})
    admin_url: str | None = None
    admin_optional: bool = False
    tenant: str = "public"
    namespace: str = "default"
    token: str | None = attrs.field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    tls_certificate: str | None = None
    tls_key: str | None = None
    message_max_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Kafka:
    """``servers`` lists brokers. ``librdkafka`` is for options of the client; ``sasl`` for credentials."""

    servers: list[str] = attrs.field(metadata={"address": True})
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    mechanism: str = "PLAIN"
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = attrs.field(default=None, repr=False)
    message_max_bytes: int = 1_000_000
    timeout_ratio: float = 1.0
    sasl: Sasl = attrs.field(factory=Sasl)
    librdkafka: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise mqplug.ConfigError("half of the credentials is missing", fix="Give username and password, or none")


@attrs.frozen(kw_only=True)
class Nats:
    """``hosts`` has no default, and so is an address. ``fail`` is what connecting fails with; ``create``: makes it."""

    hosts: list[str]
    token: str | None = attrs.field(default=None, repr=False)
    fail: str = ""
    create: bool = attrs.field(default=True, metadata={"creates": True})


class Fake:
    """A backend with these settings, over the memory backend."""

    def __init__(self, name: str, settings: type[Any]) -> None:
        self.name = name
        self.settings = settings
        self.given: Any = None

    @hookimpl
    def mqplug_describe(self) -> Descriptor:
        first = next(iter(attrs.fields(self.settings)))

        def from_url(url: Url) -> Mapping[str, Any]:
            login = {"username": url.user, "password": url.password} if url.password else {}
            hosts = [each.host if each.port is None else each.at(0) for each in url.hosts]
            return {first.name: hosts if "list" in str(first.type) else url.path, **login}

        return Descriptor(name=self.name, settings=self.settings, capabilities=Capabilities(), from_url=from_url)

    @hookimpl
    def mqplug_connect(self, settings: Any) -> Any:
        self.given = settings
        if isinstance(settings, Nats) and settings.fail:
            native = RuntimeError(f"native: {settings.fail} with {settings.token}")
            raise mqplug.ConnectError(f"{settings.fail} with {settings.token}") from native
        return mqplug.memory.mqplug_connect(mqplug.memory.MemorySettings())


KINDS = {"rocksmq": RocksMQ, "pulsar": Pulsar, "kafka": Kafka, "nats": Nats}
Fakes = Mapping[str, Fake]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Fakes]:
    """The fakes, registered by name, without any configuration except the test's."""
    for variable in os.environ:
        if variable.startswith(("MQPLUG_", "KAFKA", "PULSAR", "ROCKSMQ", "MQ_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    made = {name: Fake(name, kind) for name, kind in KINDS.items()}
    registrations = [mqplug.register(name, fake) for name, fake in made.items()]
    yield made
    for registration in registrations:
        registration.undo()
