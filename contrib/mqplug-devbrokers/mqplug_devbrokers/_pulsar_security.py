"""A secured Pulsar: TLS, and clients with a token, password or certificate and rights of their own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mqplug_devbrokers._certificates import LIFETIME_S, Certificate, CertificateAuthority, find_openssl
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._ports import choose_ports
from mqplug_devbrokers._pulsar_rest import PulsarRest, topic_path
from mqplug_devbrokers._tokens import json_web_token
from mqplug_devbrokers._tools import run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

Address = Literal["plain", "tls", "admin", "admin_tls"]

SCHEMES: dict[Address, str] = {"plain": "pulsar", "tls": "pulsar+ssl", "admin": "http", "admin_tls": "https"}
ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
ADMIN = "admin"
PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
OPENSSL_TIMEOUT_S = 60.0
REST_TIMEOUT_S = 30.0
POLL_S = 0.01


@dataclass(frozen=True)
class PulsarSecurity:
    """The settings of `PulsarServer(security=…)`: every client must authenticate.

    `users` are names and passwords for basic authentication. Tokens and certificates are issued by
    `PulsarServer.secured`, for any role. With `authorize`, all roles but `admin` may do only what its `allow` has
    granted them.
    """

    users: Mapping[str, str] = field(default_factory=lambda: {"alice": "alice-pw", "bob": "bob-pw"})
    authorize: bool = False


class SecuredPulsar:
    """The addresses, credentials and rights of one `PulsarServer` with `security`.

    All addresses take tokens and passwords; those with TLS also take certificates.
    """

    def __init__(
        self, security: PulsarSecurity, directory: Path, plain: Mapping[str, int], taken: Collection[int]
    ) -> None:
        self.security = security
        self.directory = directory / "security"
        self.directory.mkdir(exist_ok=True)
        self.authority = CertificateAuthority(self.directory)
        with_tls = choose_ports(directory / "secured-ports.json", ["tls", "admin_tls"], 0, taken)
        self._ports: Mapping[str, int] = {**plain, **with_tls}
        self._key_file = self.directory / "token.key"
        if not self._key_file.exists():
            self._key_file.write_bytes(secrets.token_bytes(32))

    def address(self, of: Address) -> str:
        """Return the address of the broker (`plain` or `tls`), or of its administration (`admin` or `admin_tls`)."""
        return f"{SCHEMES[of]}://127.0.0.1:{self._ports[of]}"

    @property
    def ca_file(self) -> Path:
        """The certificate that clients must trust."""
        return self.authority.ca_file

    @cached_property
    def admin_token(self) -> str:
        """A token of the role `admin`, which may do everything and never expires."""
        return self.token(ADMIN)

    def token(self, role: str, *, lifetime: float | None = None) -> str:
        """Return a token for a role. It expires after `lifetime` seconds; a negative one has expired already."""
        return json_web_token(self._key_file.read_bytes(), role, lifetime)

    def issue(self, role: str, *, lifetime: float = LIFETIME_S, directory: Path | None = None) -> Certificate:
        """Return a certificate for a role, valid for `lifetime` seconds. Clients present it over TLS.

        A second one for the same role replaces the files of the first.
        """
        return self.authority.issue(role, lifetime=lifetime, directory=directory)

    def allow(
        self,
        role: str,
        *actions: str,
        topic: str | None = None,
        namespace: str | None = None,
        tenant: str | None = None,
    ) -> None:
        """Grant a role rights: `allow("alice", "produce", "consume", topic="orders")`, or `namespace="public/default"`.

        They apply when this returns, in addition to earlier ones. The actions are Pulsar's: produce, consume,
        functions, sources, sinks, packages. `allow("alice", "admin", tenant="public")` makes an administrator of a
        tenant.
        """
        if tenant is not None and actions != (ADMIN,):
            raise BrokerError('a tenant only has administrators; use allow(role, "admin", tenant=...)')
        if tenant is None and (unknown := [each for each in actions if each not in ACTIONS]):
            raise BrokerError(f"unknown action {unknown[0]!r}; expected one of {', '.join(ACTIONS)}")
        for where in filter(None, (topic and topic_path(topic), namespace and f"namespaces/{namespace}")):
            self._give(where, role, self._rights(where, role) | {*actions})
        if tenant is not None:
            self._change_administrators(tenant, {*self._administrators(tenant), role})

    def forbid(self, role: str) -> None:
        """Revoke all rights of a role."""
        rest = self._rest()
        for tenant in rest.ask("GET", "tenants"):
            self._change_administrators(tenant, self._administrators(tenant) - {role})
            for namespace in rest.ask("GET", f"namespaces/{tenant}"):
                granted = rest.ask("GET", f"namespaces/{namespace}")["auth_policies"]
                if role in granted["namespace_auth"]:
                    self._take_away(f"namespaces/{namespace}", role)
                for topic, roles in granted["destination_auth"].items():
                    if role in roles:
                        self._take_away(topic_path(topic), role)

    def settings(self) -> dict[str, str]:
        """Write the broker's files, and return its settings."""
        broker = self.authority.issue("broker", hosts=("127.0.0.1", "localhost"))
        passwords = self.directory / "passwords"
        passwords.write_text("".join(f"{name}:{_hash(word)}\n" for name, word in self.security.users.items()))
        return {
            "authenticationEnabled": "true",
            "authenticationProviders": ",".join(PROVIDERS + kind for kind in ("Token", "Basic", "Tls")),
            "tokenSecretKey": f"file://{self._key_file}",
            "basicAuthConf": f"file://{passwords}",
            "authorizationEnabled": str(self.security.authorize).lower(),
            "superUserRoles": ADMIN,
            # The broker is a client of itself.
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.admin_token}",
            "brokerServicePortTls": str(self._ports["tls"]),
            "webServicePortTls": str(self._ports["admin_tls"]),
            "tlsCertificateFilePath": str(broker.cert_file),
            "tlsKeyFilePath": str(broker.key_file),
            "tlsTrustCertsFilePath": str(self.ca_file),
        }

    def _rights(self, where: str, role: str) -> set[str]:
        return set(self._rest().ask("GET", f"{where}/permissions").get(role, ()))

    def _give(self, where: str, role: str, rights: set[str]) -> None:
        self._rest().ask("POST", f"{where}/permissions/{role}", sorted(rights))
        _wait_until(lambda: rights <= self._rights(where, role))

    def _take_away(self, where: str, role: str) -> None:
        self._rest().ask("DELETE", f"{where}/permissions/{role}")
        _wait_until(lambda: not self._rights(where, role))

    def _administrators(self, tenant: str) -> set[str]:
        return set(self._rest().ask("GET", f"tenants/{tenant}")["adminRoles"])

    def _change_administrators(self, tenant: str, roles: set[str]) -> None:
        rest = self._rest()
        info = rest.ask("GET", f"tenants/{tenant}")
        if roles != set(info["adminRoles"]):
            rest.ask("POST", f"tenants/{tenant}", {**info, "adminRoles": sorted(roles)})
            _wait_until(lambda: self._administrators(tenant) == roles)

    def _rest(self) -> PulsarRest:
        return PulsarRest(self.address("admin"), REST_TIMEOUT_S, self.admin_token)


def _wait_until(in_force: Callable[[], bool]) -> None:
    """Wait for a change of rights: the broker answers when it is stored, and applies it a moment later."""
    end = time.monotonic() + REST_TIMEOUT_S
    while not in_force():
        if time.monotonic() > end:
            raise BrokerError(f"the broker did not apply a change of rights within {REST_TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def _hash(password: str) -> str:
    """Return a password for the broker's file, hashed by a method that Pulsar supports."""
    return run_tool([find_openssl(), "passwd", "-apr1", password], timeout=OPENSSL_TIMEOUT_S).strip()
