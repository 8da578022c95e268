"""Settings, names, and errors before any I/O."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mqplug
from mqplug.introspection import plan
from mqplug.spi import Address, Capabilities, Url
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._admin.topic_patterns import Scope, scopes
from mqplug_pulsar._cluster.credentials import Credentials
from mqplug_pulsar._format.topic_names import NamespaceTopics
from mqplug_pulsar._settings import from_url

NAMES = NamespaceTopics("public", "default")


def test_url():
    """A URL sets the hosts, the namespace and the token; the default port is 6650."""
    url = Url("pulsar", (Address("a", None), Address("b", 1)), "/acme/prod", "", "t0ken")
    assert from_url(url) == {
        "service_url": "pulsar://a:6650,b:1", "tenant": "acme", "namespace": "prod", "token": "t0ken",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hosts", "service_url", "addresses"),
    [
        ("a,b:1", "pulsar://a:6650,b:1", [("a", 6650), ("b", 1)]),
        ("[::1]:7,[::2]", "pulsar://[::1]:7,[::2]:6650", [("::1", 7), ("::2", 6650)]),
    ],
)
def test_hosts_of_a_url(hosts, service_url, addresses):
    """Hosts of a URL become a service URL for pulsar-client and (host, port) pairs for the handshake."""
    settings = PulsarSettings(**from_url(Url("pulsar", tuple(map(Address.parse, hosts.split(","))), "", None, None)))
    assert (settings.service_url, settings.addresses) == (service_url, addresses)


@pytest.mark.parametrize(
    ("url", "service_url"),
    [
        ("pulsar+ssl://a,b:1/acme/prod", "pulsar+ssl://a:6651,b:1"),
        ("pulsar+ssl://", "pulsar+ssl://127.0.0.1:6651"),
        ("PULSAR+SSL://a", "pulsar+ssl://a:6651"),
    ],
)
def test_a_url_with_tls(url, service_url):
    """``pulsar+ssl://`` is a URL of this backend; its default port is 6651."""
    assert plan(url, {}, None).settings.service_url == service_url


def test_zlib_needs_batches():
    """Compression with zlib is refused without batches, before any I/O: readers would drop the empty messages."""
    with pytest.raises(mqplug.ConfigError, match="compression=zlib cannot be used with batching=none") as caught:
        mqplug.connect("pulsar", compression="zlib", batching="none")
    assert "zstd" in str(caught.value.fix)
    assert PulsarSettings(compression="zlib").batching == "mixed"
    assert PulsarSettings(compression="zstd", batching="none").compression == "zstd"


def test_a_url_with_tls_configures():
    """``pulsar+ssl://`` configures this backend; an unknown suffix is a ``ConfigError`` with the known schemes."""
    assert mqplug.configured("pulsar", {"url": "pulsar+ssl://a"})
    with pytest.raises(mqplug.ConfigError, match=r"unknown scheme pulsar\+tls://.*Write pulsar:// or pulsar\+ssl://"):
        mqplug.connect("pulsar+tls://a")


@pytest.mark.parametrize("url", ["pulsar://me:s3/cret@h", "pulsar://h:1?service_url=pulsar://me:s3cret@h"])
def test_no_error_about_an_address_shows_a_login(url):
    """An error about an address with a login does not show the login."""
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect(url)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"service_url": "http://x"},
        {"admin_url": "x"},
        {"tenant": "a/b"},
        {"tls_certificate": "x"},
        {"username": "me"},
        {"password": "a\nb"},
        {"username": "me", "password": "pw", "token": "t"},
        {"token": "t", "token_file": "f"},
        {"token_file": "/does/not/exist"},
        {"token_file": "/dev/null"},
        {"token": "a\nb"},
        {"token": ""},
        {"token": 1},
        {"token_provider": "not-installed"},
        {"token_provider": "x", "token": "t"},
        {"token_options": {"a": "b"}},
        {"token": lambda: "t", "token_file": "f"},
        {"service_url": "pulsar://x:y"},
        {"service_url": "pulsar://x:65536"},
        {"service_url": "pulsar://x,:6650"},
        {"admin_url": "http://x:99999"},
        {"admin": "http://x"},
        {"tls_ca": "/does/not/exist"},
    ],
)
def test_wrong_settings(settings):
    """A wrong setting is a ``ConfigError`` before any I/O, and shows no secret."""
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect("pulsar", **settings)
    assert "a\nb" not in str(caught.value)


def test_the_largest_message_can_be_said():
    """``message_max_bytes`` can lower the broker's limit, and sets the limit if the broker announces none."""
    from mqplug_pulsar._cluster.connection import _limited
    from mqplug_pulsar._cluster.handshake import Greeting

    silent, speaking = Greeting("", None), Greeting("", 20 * 1024)
    settings, declared = PulsarSettings(message_max_bytes=1000), Capabilities(message_max_bytes=5000)
    assert _limited(settings, declared, silent).message_max_bytes == 1000
    assert _limited(settings, declared, speaking).message_max_bytes == 1000
    assert _limited(PulsarSettings(), declared, silent).message_max_bytes == 5000
    assert _limited(PulsarSettings(), declared, speaking).message_max_bytes == 10 * 1024


def test_a_user_in_a_url_is_basic_authentication():
    """A user and a password in a URL are basic authentication; a password without a user is a token."""
    assert from_url(Url("pulsar", (), "", "me", "pw")) == {"username": "me", "password": "pw"}
    assert from_url(Url("pulsar", (), "", "", "t")) == {"token": "t"}


def test_each_way_to_authenticate(tmp_path):
    """Each way to authenticate has its form for the broker, for pulsar-client and for HTTP."""
    (tmp_path / "token").write_text("t0ken\n")
    ways = [
        (PulsarSettings(token_file=str(tmp_path / "token")), "token", b"t0ken", "AuthenticationToken", "Bearer t0ken"),
        (PulsarSettings(token=lambda: "t0ken"), "token", b"t0ken", "AuthenticationToken", "Bearer t0ken"),
        (PulsarSettings(token="t0ken"), "token", b"t0ken", "AuthenticationToken", "Bearer t0ken"),
        (PulsarSettings(username="me", password="pw"), "basic", b"me:pw", "AuthenticationBasic", "Basic bWU6cHc="),
        (PulsarSettings(tls_certificate="c", tls_key="k"), "tls", b"", "AuthenticationTLS", None),
    ]
    for settings, method, data, kind, header in ways:
        login = Credentials(settings)
        assert (login.method, login.data(), login.header()) == (method, data, header)
        assert type(login.native()).__name__ == kind
    none = Credentials(PulsarSettings())
    assert (none.method, none.data(), none.header(), none.native()) == (None, b"", None, None)


def test_no_secret_in_repr():
    """The repr of settings shows neither token nor password."""
    assert "s3cret" not in repr(PulsarSettings(token="s3cret"))
    assert "s3cret" not in repr(PulsarSettings(username="me", password="s3cret"))


def test_names():
    """A topic of the connection's namespace has a plain name; topics elsewhere keep their full names."""
    assert NAMES.full("a") == "persistent://public/default/a"
    assert NAMES.canonical("persistent://public/default/a") == "a"
    assert NAMES.canonical("persistent://x/y/a") == "persistent://x/y/a"


@pytest.mark.parametrize("name", ["non-persistent://public/default/a", "a/b", " ", "persistent://a/b", "http://x/y/z"])
def test_illegal_names(name):
    """A name that cannot be a persistent topic raises ``InvalidName``."""
    with pytest.raises(mqplug.InvalidName):
        NAMES.full(name)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("persistent://public/default/.*", [("public", "default")]),
        (r"persistent://public/my\-ns/orders", [("public", r"my\-ns")]),
        ("persistent://public/.*/orders", [("public", ".*")]),
        ("persistent://public/.*", [("public", None)]),
        ("persistent://.*", [(None, None)]),
        ("persistent://public/(a/x|b/y)", [("public", None)]),
        ("persistent://[a|/]+/ns/x", [("[a|/]+", "ns")]),
        ("persistent://a/b/c|persistent://d/(e|f)/g", [("a", "b"), ("d", "(e|f)")]),
        ("persistent://a/b/c|.*", [("a", "b"), (None, None)]),
    ],
)
def test_where_a_pattern_looks(pattern, found):
    """A pattern limits the search to its tenants and namespaces; an unclear one searches all of them."""
    scope_of = [Scope(*each) for each in found]
    assert list(scopes(pattern)) == ([Scope(None, None)] if pattern.startswith("persistent://[") else scope_of)


def test_import_is_light():
    """Importing and describing the plugin does not import pulsar-client."""
    code = "import sys, mqplug_pulsar as m; m.mqplug_describe(); assert not {'pulsar', '_pulsar'} & set(sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)
