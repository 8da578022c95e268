"""A handshake with a broker before the client library connects, which would only retry until its timeout.

TCP, TLS, one CONNECT and one LOOKUP: each failure names its cause at once. All brokers of the service URL are asked at
the same time, on threads: only there can the wait for a name server or for a silent broker be cut off.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

import attrs
import certifi

import mqplug
from mqplug.spi import Address, Deadline
from mqplug_pulsar._cluster.credentials import Credentials, tls_context
from mqplug_pulsar._format import binary_protocol as commands
from mqplug_pulsar._format.binary_protocol import Fields
from mqplug_pulsar._settings import PORT, TLS_PORT, PulsarSettings

HANDSHAKE_S = 10.0  # at most, with a broker that does not answer
OTHERS_S = 1.0  # for the other brokers, after one has answered

_PORTS = f"service_url= is the broker's own port ({PORT}, with TLS {TLS_PORT})"
_NOT_TLS = f"Use pulsar:// if this port expects no TLS; brokers expect it at another port ({TLS_PORT})"
_NO_ANSWER = (
    f"Use pulsar+ssl:// if this port expects TLS, and check that it is a Pulsar broker's ({PORT}, with TLS {TLS_PORT})"
)
_TRUST = "Check that tls_ca= is the authority of the broker's certificate, and write its host as in the certificate"
_OWN_CERTIFICATE = "Check that tls_certificate= and tls_key= are valid now, and that the broker trusts them"


@attrs.frozen
class Greeting:
    """A broker's description of itself."""

    version: str
    message_max_bytes: int | None
    """The maximum message size including metadata, if the broker reports it."""


@attrs.frozen
class Welcome:
    """The greeting of one broker, and the service URL for the client library."""

    greeting: Greeting
    service_url: str
    """Without the addresses at which no broker answers."""


class _Answer(NamedTuple):
    """The outcome of one handshake. ``reached`` is whether the address accepted the connection."""

    address: tuple[str, int]
    outcome: Greeting | mqplug.Error
    reached: bool


def shake_hands(settings: PulsarSettings, credentials: Credentials, topic: str, deadline: Deadline) -> Welcome:
    """Return the greeting of the first broker that accepts this client and serves the namespace of the topic.

    The topic need not exist. If no broker does, raise the reason.
    """
    answers = _begin(settings, credentials, topic, deadline)
    unusable = set(settings.addresses)
    failure: mqplug.Error | None = None
    welcome: Greeting | None = None
    patience = deadline
    for _ in range(len(unusable)):
        answer = _next(answers, patience)
        if answer is None:
            break
        if isinstance(answer.outcome, Greeting) or not answer.reached:
            unusable.discard(answer.address)
        if welcome is not None:
            continue
        if isinstance(answer.outcome, Greeting):
            welcome, patience = answer.outcome, Deadline(deadline.remaining(OTHERS_S))
        elif isinstance(answer.outcome, mqplug.ConnectError):
            failure = answer.outcome
        else:
            raise answer.outcome  # every broker of the cluster would say so
    if welcome is not None:
        return Welcome(welcome, _without(settings, unusable))
    raise failure or mqplug.ConnectError(
        f"no Pulsar broker answered at {settings.service_url} in time",
        fix=f"Allow more time, or check the address: {_PORTS}",
    )


def _begin(settings: PulsarSettings, credentials: Credentials, topic: str, deadline: Deadline) -> SimpleQueue[_Answer]:
    """Begin a handshake with each broker, and return the queue of their answers."""
    context = tls_context(settings, trusted=certifi.where()) if settings.secure else None
    answers: SimpleQueue[_Answer] = SimpleQueue()

    def shake(address: tuple[str, int]) -> None:
        answers.put(_Handshake(address, context, credentials, settings.listener_name, topic, deadline).answer())

    for address in set(settings.addresses):
        Thread(target=shake, args=(address,), name="mqplug-pulsar-handshake", daemon=True).start()
    return answers


def _next(answers: SimpleQueue[_Answer], deadline: Deadline) -> _Answer | None:
    """Return the next answer; None if none arrives in time."""
    with suppress(Empty):
        return answers.get(timeout=max(0.01, deadline.remaining(HANDSHAKE_S)))
    return None


def _without(settings: PulsarSettings, unusable: set[tuple[str, int]]) -> str:
    """Return the service URL without the addresses at which no broker answers.

    Each call that the client library begins with such an address fails. It tries another one only if a port is closed.
    """
    if not unusable:
        return settings.service_url
    hosts = (Address(*each).at(0) for each in settings.addresses if each not in unusable)
    return f"{settings.service_url.partition('://')[0]}://{','.join(hosts)}"


class _Handshake:
    """The handshake with one broker."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext | None,
        credentials: Credentials,
        listener: str | None,
        topic: str,
        deadline: Deadline,
    ) -> None:
        self._address = address
        self._where = f"{address[0]}:{address[1]}"
        self._context = context
        self._credentials = credentials
        self._listener = listener
        self._topic = topic
        self._deadline = deadline

    def answer(self) -> _Answer:
        """Return the broker's greeting, or the error."""
        try:
            plain = socket.create_connection(self._address, timeout=self._left())
        except (OSError, ValueError) as error:  # ValueError for an impossible host name
            text = f"no broker could be reached at {self._where}: {error}"
            return _Answer(self._address, _because(text, "Check service_url=", error), reached=False)
        with plain:
            return _Answer(self._address, self._outcome(plain), reached=True)

    def _outcome(self, plain: socket.socket) -> Greeting | mqplug.Error:
        try:
            with self._encrypted(plain) as stream:
                greeting = self._introduced(stream)
                self._check_namespace(stream)
                return greeting
        except mqplug.Error as error:
            return error
        except OSError as error:
            return self._failure(error)

    def _encrypted(self, plain: socket.socket) -> socket.socket:
        if self._context is None:
            return plain
        plain.settimeout(self._left())
        try:
            return self._context.wrap_socket(plain, server_hostname=self._address[0])
        except (ssl.SSLCertVerificationError, TimeoutError):
            raise
        except OSError as error:
            if _is_alert(error):
                raise
            raise mqplug.ConnectError(
                f"{self._where} does not speak TLS, which pulsar+ssl:// requires", fix=_NOT_TLS
            ) from error

    def _introduced(self, stream: socket.socket) -> Greeting:
        """Send CONNECT, and return the broker's greeting."""
        method = self._credentials.method
        self._send(stream, commands.connect_command(method, self._credentials.data()))
        kind, body = self._receive(stream)
        if kind == commands.AUTH_CHALLENGE and method is not None:
            self._send(stream, commands.auth_response_command(method, self._credentials.data()))
            kind, body = self._receive(stream)
        if kind != commands.CONNECTED:
            raise self._refusal(kind, body)
        return Greeting(commands.text_field(body, 1), commands.number_field(body, 3))

    def _check_namespace(self, stream: socket.socket) -> None:
        """Raise ``ConfigError`` if the namespace does not exist. The broker reveals this only to a role with rights."""
        self._send(stream, commands.lookup_command(self._topic, self._listener))
        kind, body = self._receive(stream)
        said = commands.text_field(body, 7)
        missing = {commands.TOPIC_NOT_FOUND, commands.METADATA_ERROR}
        if (
            kind == commands.LOOKUP_RESPONSE
            and commands.number_field(body, 6) in missing
            and "namespace" in said.lower()
        ):
            tenant, namespace = self._topic.partition("://")[2].split("/")[:2]
            raise mqplug.ConfigError(
                f"the namespace {tenant}/{namespace} does not exist",
                fix="Check tenant= and namespace=, or have it created: "
                f"pulsar-admin namespaces create {tenant}/{namespace}",
            )  # fmt: skip

    def _send(self, stream: socket.socket, command: bytes) -> None:
        stream.settimeout(self._left())
        stream.sendall(command)

    def _receive(self, stream: socket.socket) -> tuple[int, Fields]:
        head = self._read(stream, commands.SIZE.size)
        if head == b"HTTP":
            raise mqplug.ConnectError(
                f"{self._where} speaks HTTP, not Pulsar's protocol",
                fix=f"{_PORTS}; the HTTP address belongs in admin_url=",
            )
        if head[:2] == b"\x15\x03":  # an alert
            raise mqplug.ConnectError(
                f"{self._where} expects TLS", fix=f"Use pulsar+ssl://, as in service_url='pulsar+ssl://{self._where}'"
            )
        (size,) = commands.SIZE.unpack(head)
        if not commands.SIZE.size < size <= commands.MAX_FRAME_BYTES:
            raise self._not_pulsar()
        try:
            return commands.read_command(self._read(stream, size)[commands.SIZE.size :])
        except ValueError as error:
            raise self._not_pulsar() from error

    def _read(self, stream: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            stream.settimeout(self._left())
            more = stream.recv(size - len(data))
            if not more:
                raise ConnectionResetError("the connection was closed")
            data += more
        return data

    def _refusal(self, kind: int, body: Fields) -> mqplug.Error:
        if kind != commands.ERROR:
            return self._not_pulsar()
        said = commands.text_field(body, 3)
        match commands.number_field(body, 2):
            case commands.AUTHENTICATION_ERROR:
                return self._credentials.refused(f"the broker at {self._where}", said)
            case commands.AUTHORIZATION_ERROR:
                return mqplug.AccessDenied(
                    f"the broker at {self._where} refused the connection: {said}", fix="Ask for the right to connect"
                )
        return mqplug.ConnectError(f"the broker at {self._where} refused the connection: {said}")

    def _not_pulsar(self) -> mqplug.ConnectError:
        return mqplug.ConnectError(
            f"{self._where} does not speak Pulsar's protocol", fix=f"Check the address: {_PORTS}"
        )

    def _failure(self, error: OSError) -> mqplug.Error:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _because(f"the certificate of {self._where} is not trusted: {error.verify_message}", _TRUST, error)
        if isinstance(error, ssl.SSLError) and _is_alert(error):
            return _because(f"{self._where} refused this client's certificate: {error.reason}", _OWN_CERTIFICATE, error)
        if isinstance(error, TimeoutError):
            return _because(
                f"no Pulsar broker answered at {self._where} in time",
                f"Allow more time, or check the address: {_PORTS}",
                error,
            )
        return _because(f"{self._where} closed the connection without an answer", _NO_ANSWER, error)

    def _left(self) -> float:
        return max(0.01, self._deadline.remaining(HANDSHAKE_S))


def _is_alert(error: OSError) -> bool:
    """Return whether this is a TLS alert, with which the other side rejects our handshake."""
    return isinstance(error, ssl.SSLError) and "ALERT" in str(error.reason)


def _because(message: str, fix: str, error: Exception) -> mqplug.ConnectError:
    made = mqplug.ConnectError(message, fix=fix)
    made.__cause__ = error
    return made
