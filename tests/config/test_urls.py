"""URLs: a plugin gets hosts as pairs, and no error shows any part of a user or password."""

from __future__ import annotations

import string
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from config_backends import Fake, Fakes, fakes
from hypothesis import HealthCheck, example, given, settings, strategies as st

import mqplug
from mqplug.spi import Address, Url, hookimpl
from mqplug_cli import run_command

__all__ = ["fakes"]

TOKENS = ("Zq7xKv", "Wp3mTj", "Hb9dRn")  # parts of a secret that occur nowhere else
SPECIAL = "@/?#:%[],;= &'\"\\\n" + string.ascii_lowercase


@attrs.frozen(kw_only=True)
class Whereabouts:
    """Settings whose ``address`` is everything that the URL said."""

    address: str = attrs.field(default="", metadata={"address": True})
    pairs: Any = None


class Reading(Fake):
    """A backend whose ``from_url`` each test provides."""

    def __init__(self, read: Callable[[Url], Any]) -> None:
        super().__init__("reading", Whereabouts)
        self.read = read

    @hookimpl
    def mqplug_describe(self) -> Any:
        return attrs.evolve(super().mqplug_describe(), from_url=self.read)


def hosts_of(text: str) -> Any:
    """Return the hosts that a plugin gets from a URL."""
    seen: list[Url] = []

    def read(url: Url) -> Mapping[str, Any]:
        seen.append(url)
        return {"address": "x"}

    with mqplug.register("reading", Reading(read)), mqplug.connect(text):
        return seen[0].hosts


class Encrypting(Reading):
    """A backend with a second scheme."""

    @hookimpl
    def mqplug_describe(self) -> Any:
        return attrs.evolve(super().mqplug_describe(), schemes=frozenset({"reading+ssl"}))


def test_a_backend_has_schemes_beside_its_name() -> None:
    """What follows a plus names no other backend: the plugin reads the scheme, and the backend is configured."""
    seen: list[Url] = []
    plugin = Encrypting(lambda url: {"address": seen.append(url) or url.scheme})  # type: ignore[func-returns-value]
    with mqplug.register("reading", plugin):
        with mqplug.connect("reading+ssl://h") as client:
            assert (client.backend, seen[0].scheme, seen[0].backend) == ("reading", "reading+ssl", "reading")
        assert mqplug.configured("reading", {"url": "reading+ssl://h"})
        with pytest.raises(
            mqplug.ConfigError, match=r"unknown scheme reading\+tls://.*Write reading:// or reading\+ssl://"
        ):
            mqplug.connect("reading+tls://h")
    plain = mqplug.register("reading", Reading(lambda url: {"address": "x"}))
    with plain, pytest.raises(mqplug.ConfigError, match=r"unknown scheme reading\+ssl://.*Write reading://$"):
        mqplug.connect("reading+ssl://h")


@pytest.mark.parametrize(
    ("authority", "hosts"),
    [
        ("h1:9092,h2", [("h1", 9092), ("h2", None)]),
        ("[::1]:9092,h2:9093", [("::1", 9092), ("h2", 9093)]),
        ("h1,[fe80::1%25eth0]", [("h1", None), ("fe80::1%eth0", None)]),
        ("me:pw@[::1]:1", [("::1", 1)]),
        ("me:p@w:x@h:65535", [("h", 65535)]),
        ("under_score.example", [("under_score.example", None)]),
        ("", []),
    ],
)
def test_hosts_are_pairs(authority: str, hosts: list[tuple[str, int | None]]) -> None:
    """A plugin gets each host as (host, port), IPv6 without brackets; a missing port is None."""
    assert list(hosts_of(f"reading://{authority}/path")) == hosts


@pytest.mark.parametrize(
    ("host", "written"), [("h", "h:7"), ("h:9", "h:9"), ("[::1]", "[::1]:7"), ("[::1]:9", "[::1]:9")]
)
def test_an_address_is_written_with_its_port(host: str, written: str) -> None:
    """``at`` adds the port that a URL omits, and the brackets of IPv6."""
    assert Address.parse(host).at(7) == written


@pytest.mark.parametrize("port", ["0", "65536", "99999", "75628", "-1", "+1", "x", "", "9092x", "٣", "9" * 5000])
@pytest.mark.parametrize("hosts", ["h:{}", "[::1]:{}", "h1:1,h2:{}", "me:pw@h:{}"])
def test_a_wrong_port_is_refused_before_anything_is_dialled(fakes: Fakes, hosts: str, port: str) -> None:
    """An invalid port raises ``ConfigError``, so that no client takes it modulo 65536."""
    with pytest.raises(mqplug.ConfigError, match="a port must be a whole number from 1 to 65535"):
        mqplug.connect(f"kafka://{hosts.format(port)}")
    assert fakes["kafka"].given is None


@pytest.mark.parametrize("hosts", [":9092", "h1,,h2", "h1,", "::1", "::1:9092", "[::g]", "[::1", "a b", "me:pw@"])
def test_what_is_no_host_is_refused(fakes: Fakes, hosts: str) -> None:
    """An empty host, or an IPv6 address without brackets, raises ``ConfigError``."""
    if hosts.endswith("@"):
        hosts += ":1"
    with pytest.raises(mqplug.ConfigError, match="invalid host"):
        mqplug.connect(f"kafka://{hosts}")


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scheme=st.sampled_from(["kafka", "pulsar", "rocksmq", "nats", "memory", "reading", "nosuch", "://", ""]),
    glue=st.lists(st.text(SPECIAL, max_size=4), min_size=4, max_size=4),
    end=st.sampled_from(["@h:1", "@h:99999", "@[::1]:1/p", "@h?x=1", "@h?x", "@", "@h/#x"]),
)
@example("kafka", ["", "/", "", ""], "@h:9092")
@example("kafka", [":", "?x=", "/", "#"], "@h:9092")
@example("nosuch", ["", ":", "@", "/"], "@h")
@example("", ["", "//", "", ""], "@h:1")
def test_no_error_shows_a_part_of_a_login(fakes: Fakes, scheme: str, glue: list[str], end: str) -> None:
    """Whatever is unescaped in a user or password, no part of it shows in an error or its cause."""
    first, second, third = TOKENS
    login = f"{first}{glue[0]}:{glue[1]}{second}{glue[2]}{third}{glue[3]}"

    def careless(url: Url) -> Mapping[str, Any]:
        raise ValueError(f"cannot read {url.password} of {url.user} at {url.hosts}")

    with mqplug.register("reading", Reading(careless)):
        for target in (f"{scheme}://{login}{end}", f"{scheme}:{login}{end}", f"{login}{end}"):
            with pytest.raises((mqplug.Error, TypeError)) as caught:
                mqplug.connect(target, no_such_setting=1)
            texts = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
            assert not [token for token in TOKENS if token in texts], texts


@pytest.mark.parametrize("error", [ValueError("no shelf"), KeyError("shelf"), RuntimeError("x"), AttributeError("y")])
def test_whatever_a_plugin_raises_at_a_url_is_a_config_error(error: Exception) -> None:
    """The error names the URL without its secrets, the backend, and the plugin's exception."""

    def broken(url: Url) -> Mapping[str, Any]:
        raise error

    with mqplug.register("reading", Reading(broken)):
        with pytest.raises(mqplug.ConfigError, match=rf"URL 'reading://host/p': {type(error).__name__}") as caught:
            mqplug.connect("reading://host/p?token=s3cret")
        assert caught.value.backend == "reading"
        assert "s3cret" not in str(caught.value)
        with pytest.raises(mqplug.ConfigError, match=r"'reading://\.\.\.@host/p'"):
            mqplug.connect("reading://me:s3cret@host/p")


def test_what_a_plugin_makes_of_a_url_is_a_mapping() -> None:
    """A plugin that turns a URL into anything but a mapping is refused."""
    with mqplug.register("reading", Reading(lambda url: None)), pytest.raises(mqplug.ConfigError, match="cannot read"):
        mqplug.connect("reading://host")


@pytest.mark.parametrize("target", ["./mq", "/abs/dir", "~/mq", "../mq", "data/mq", "C:\\mq", "mq.json"])
def test_a_path_says_what_to_write(target: str) -> None:
    """A path in place of a backend raises an error that says how to open a RocksMQ store there."""
    if target == "mq.json":
        target = "./mq.json"
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect(target)
    assert "is a path, not a backend" in str(caught.value)
    assert f"connect('rocksmq', path={target!r})" in str(caught.value)


@pytest.mark.parametrize("target", ["localhost:9092", "me:s3cret@host:9092", "kafka:/host", "kafka:host", "ka fka", ""])
def test_what_is_neither_a_name_nor_a_url_says_so(target: str) -> None:
    """An unrecognised target is not shown, since it may hold a password."""
    with pytest.raises(
        mqplug.ConfigError, match=r"neither the name of a backend nor a URL.*kafka://host:9092"
    ) as caught:
        mqplug.connect(target)
    assert "s3cret" not in str(caught.value)


def test_the_command_line_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line suggests the URL of a store for a path."""
    assert run_command(["topics", "./mq"]) == 1
    assert "rocksmq:///" in capsys.readouterr().err


def test_a_directory_is_no_configuration_file(tmp_path: Any) -> None:
    """``connect(Path("./mq"))`` raises an error that says how to open a store there."""
    with pytest.raises(mqplug.ConfigError, match=r"is a directory.*connect\('rocksmq', path="):
        mqplug.connect(tmp_path)


def test_an_ampersand_at_the_end() -> None:
    """A trailing ``&`` in a query, as templates produce, changes nothing."""
    with mqplug.connect("memory://ampersand?like=kafka&") as client:
        assert client.capabilities.acked_ranges_max  # Kafka's capabilities
