"""The settings of the Pulsar backend, and their checks. Imports no client library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from mqplug import ConfigError
from mqplug.spi import Address, Url

PORT = 6650
TLS_PORT = 6651
_NAME = re.compile(r"[A-Za-z0-9_=:.-]+", re.ASCII)
_SERVICE = re.compile(r"pulsar(\+ssl)?://[^/?#@\s]+/?")
Compression = Literal["none", "lz4", "zlib", "zstd", "snappy"]
Batching = Literal["mixed", "by_key", "none"]
NativePart = Literal["auto", "off", "required"]
_ADMIN = re.compile(r"https?://[^?#@\s]+")


def _matches(pattern: re.Pattern[str], example: str) -> Any:
    def check(settings: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
        if value is not None and not pattern.fullmatch(value):
            raise ValueError(f"{attribute.name} must look like {example}, not {value!r}")

    return check


def _hosts(url: str) -> list[Address]:
    """Return the hosts of a service URL or an admin URL."""
    authority = url.partition("://")[2].partition("/")[0]
    return [Address.parse(host) for host in authority.split(",")]


def _is_url(pattern: re.Pattern[str], example: str) -> Any:
    def check(settings: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
        if value is None:
            return
        if not pattern.fullmatch(value):  # not shown: it may contain a password
            raise ValueError(f"{attribute.name} must look like {example}")
        try:
            _hosts(value)
        except ValueError as error:
            raise ValueError(f"{attribute.name} must look like {example}: {error}") from None

    return check


def _between(least: float, most: float) -> Any:
    def check(settings: Any, attribute: attrs.Attribute[Any], value: float) -> None:
        if not least <= value <= most:
            raise ValueError(f"{attribute.name} must be from {least:g} to {most:g}, not {value:g}")

    return check


def _one_line(settings: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, str) and (not value or not value.isprintable()):
        raise ValueError(f"{attribute.name} must be one line of text")  # without the value, which is a secret


@attrs.frozen(kw_only=True)
class PulsarSettings:
    """The addresses of a Pulsar cluster, and the credentials for it.

    Producing, consuming and seeking need only ``service_url``. ``admin_url`` (the broker's HTTP address) is for
    creating, deleting and listing topics, and for the stored positions of groups. With ``admin_optional`` the client
    continues without it, with a warning, if no Pulsar answers there. ``tenant`` and ``namespace`` complete short topic
    names. ``cluster`` is part of every id, and comes from the admin interface; set it if there is no admin interface
    and ids are shared with clients that have one. ``token`` is for authentication by token; a program may give a
    function that returns one. ``token_file`` holds one. The file is read, or the function called, for each use.
    ``token_provider`` names an entry point of the group ``mqplug.pulsar_tokens``, a function that is called with these
    settings and returns a token and its expiry time; ``token_options`` has the provider's own options.
    ``username`` and ``password`` are for basic authentication. ``tls_ca`` is a file of
    certificates to trust, in PEM. ``tls_certificate`` and ``tls_key`` are this client's own. ``tls_validate_hostname``
    checks the name in the broker's certificate. ``tls_allow_insecure`` accepts any certificate. ``listener_name``
    selects one of the broker's advertised addresses. The client library writes its errors to ``log_file``.
    ``message_max_bytes`` lowers the maximum size of a message below the broker's limit.

    Messages are sent in batches, each of which waits ``batch_delay`` seconds for others, and is full at
    ``batch_messages`` or ``batch_bytes``. With ``batching`` ``by_key`` all messages of a batch have the same key,
    which consumers in the mode ``key_shared`` need; order then holds for each key, not between keys. With
    ``none`` each message is sent separately. ``compression`` of a batch is ``none``, ``lz4``, ``zlib``, ``zstd`` or
    ``snappy``. ``zlib`` needs batches: without them, the client library drops messages with an empty value on receipt.

    ``native`` says whether the compiled part of mqplug-pulsar-native reads and sends: ``auto`` where it is installed
    and fits, else ``off`` or ``required``.
    """

    service_url: str = attrs.field(
        default="pulsar://127.0.0.1:6650",
        validator=_is_url(_SERVICE, "pulsar://host:6650 or pulsar+ssl://host:6651"),
        metadata={"address": True},
    )
    admin_url: str | None = attrs.field(default=None, validator=_is_url(_ADMIN, "http://host:8080"))
    admin_optional: bool = False
    tenant: str = attrs.field(default="public", validator=_matches(_NAME, "public"))
    namespace: str = attrs.field(default="default", validator=_matches(_NAME, "default"))
    cluster: str | None = attrs.field(default=None, validator=_matches(_NAME, "my-cluster"))
    token: str | Callable[[], str] | None = attrs.field(default=None, repr=False, validator=_one_line)
    token_file: str | None = None
    token_provider: str | None = None
    token_options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    username: str | None = attrs.field(default=None, validator=_one_line)
    password: str | None = attrs.field(default=None, repr=False, validator=_one_line)
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_validate_hostname: bool = True
    tls_allow_insecure: bool = False
    listener_name: str | None = None
    log_file: str | None = None
    message_max_bytes: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    compression: Compression = "none"
    batching: Batching = "mixed"
    batch_delay: float = attrs.field(default=0.002, validator=_between(0.001, 10.0))
    batch_messages: int = attrs.field(default=1000, validator=_between(2, 100_000))
    batch_bytes: int = attrs.field(default=128 * 1024, validator=_between(1024, 5 * 1024 * 1024))
    native: NativePart = "auto"

    def __attrs_post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise ConfigError("username and password belong together", backend="pulsar", fix="Give both, or neither")
        given = [
            name for name in ("token", "token_file", "token_provider", "username") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} exclude each other", backend="pulsar", fix="Give one of them")
        if self.compression == "zlib" and self.batching == "none":
            raise ConfigError(
                "compression=zlib cannot be used with batching=none: readers with pulsar-client drop messages that "
                "were sent this way if their value is None or empty",
                backend="pulsar", fix="Set compression=zstd, or send in batches",
            )  # fmt: skip
        if self.token_options and self.token_provider is None:
            raise ConfigError("token_options are given without token_provider", fix="Set token_provider=")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError(
                "tls_certificate and tls_key belong together", backend="pulsar", fix="Give both, or neither"
            )

    @property
    def secure(self) -> bool:
        """Whether the connection to the broker is encrypted."""
        return self.service_url.startswith("pulsar+ssl://")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker in ``service_url``."""
        default = TLS_PORT if self.secure else PORT
        return [(host, default if port is None else port) for host, port in _hosts(self.service_url)]


def from_url(url: Url) -> Mapping[str, Any]:
    """Return the settings in ``pulsar://:token@host:6650/tenant/namespace``, or with ``pulsar+ssl://``."""
    given: dict[str, Any] = {}
    port = PORT if url.scheme == "pulsar" else TLS_PORT
    hosts = ",".join(host.at(port) for host in url.hosts)
    if hosts or port == TLS_PORT:
        given["service_url"] = f"{url.scheme}://{hosts or f'127.0.0.1:{port}'}"
    parts = [part for part in url.path.split("/") if part]
    if len(parts) not in {0, 2}:
        raise ConfigError(
            f"the path {url.path!r} must be a tenant and a namespace",
            backend="pulsar",
            fix="Write pulsar://host:6650/tenant/namespace",
        )
    if parts:
        given["tenant"], given["namespace"] = parts
    if url.user:
        given.update(username=url.user, password=url.password)
    elif url.password is not None:
        given["token"] = url.password
    return given
