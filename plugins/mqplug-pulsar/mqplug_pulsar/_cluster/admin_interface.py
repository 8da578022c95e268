"""Pulsar's admin interface: whether there is one, requests over HTTP, and the meaning of its refusals."""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import mqplug
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.credentials import Credentials, tls_context
from mqplug_pulsar._settings import PulsarSettings

logger = logging.getLogger("mqplug.pulsar")

ADMIN_URL_FIX = "Set admin_url=, the broker's HTTP address, as in admin_url='http://host:8080'"
ADMIN_PROBE_S = 3.0  # to find out whether admin_url= leads to an admin interface
NO_OWNER_REASON = "find owner"  # a broker's answer, with status 412, about topics that it is about to take over
_MAX_REASON_CHARS = 300  # of an answer, in an error
_TRACED_MESSAGE = re.compile(r"^Message: (.*)$", re.MULTILINE)
_JAVA_CLASS = re.compile(r"\b[\w.$]+[.$](\w+(?:Exception|Error))\b")
_TRACE = re.compile(r"^Stacktrace:|^\s*at [\w.$/]+\(", re.MULTILINE)


class AdminRefused(Exception):
    """An answer with a status of 400 or more. The caller knows what it means."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}")
        self.status = status
        self.reason = reason


def _json(response: Any) -> Any:
    answer = response.read()
    return json.loads(answer) if answer else None


class AdminInterface:
    """Requests to one cluster's admin interface. Any thread may make them."""

    def __init__(self, settings: PulsarSettings, credentials: Credentials) -> None:
        self._url = f"{(settings.admin_url or '').rstrip('/').removesuffix('/admin/v2')}/admin/v2"
        self._credentials = credentials
        # Without a proxy, because connections to the broker's own port use none either.
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=tls_context(settings)))

    def get(self, path: str, timeout: float) -> Any:
        """Return the answer to a GET."""
        return self._ask("GET", path, None, timeout)

    def headers(self, path: str, timeout: float) -> Mapping[str, str]:
        """Return the headers of the answer to a GET."""
        return self._ask("GET", path, None, timeout, lambda response: response.headers)  # type: ignore[no-any-return]

    def put(self, path: str, body: Any, timeout: float) -> None:
        """Create a resource."""
        self._ask("PUT", path, body, timeout)

    def post(self, path: str, body: Any, timeout: float) -> None:
        """Change a resource."""
        self._ask("POST", path, body, timeout)

    def delete(self, path: str, timeout: float) -> None:
        """Delete a resource."""
        self._ask("DELETE", path, None, timeout)

    def reason_against(self, timeout: float) -> str | None:
        """Return why this is not a Pulsar admin interface that accepts the credentials; None if it is one."""
        try:
            clusters = self.get("clusters", timeout)
        except (AdminRefused, mqplug.Error) as error:
            return error.message if isinstance(error, mqplug.Error) else str(error)
        named = isinstance(clusters, list) and all(isinstance(each, str) for each in clusters)
        return None if named else "the answer is not from Pulsar"

    def stats(self, topic: str, timeout: float) -> Mapping[str, Any]:
        """Return the ledgers and cursors of one partition's topic. Raise ``TopicNotFound`` if it does not exist."""
        try:
            return _statistics(self.get(f"{topic_path(topic)}/internalStats", timeout))
        except AdminRefused as error:
            raise error_from_refusal(error, topic) from error

    def _ask(self, method: str, path: str, body: Any, timeout: float, read: Callable[[Any], Any] = _json) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if (authorization := self._credentials.header()) is not None:
            headers["Authorization"] = authorization
        request = Request(f"{self._url}/{path}", data, headers, method=method)  # noqa: S310  # http(s) by settings
        try:
            with self._opener.open(request, timeout=max(0.01, timeout)) as response:
                return read(response)
        except HTTPError as error:
            with error:
                raise self._refused(error) from error
        except TimeoutError as error:
            raise mqplug.Timeout("the admin interface did not answer in time", fix="Allow more time") from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                raise mqplug.Timeout("the admin interface did not answer in time", fix="Allow more time") from error
            raise _no_answer(self._url, error) from error

    def _refused(self, error: HTTPError) -> Exception:
        body = error.read(10_000).decode(errors="replace").strip()
        reason = _reason(body)
        if error.code == HTTPStatus.UNAUTHORIZED and reason is None:  # with a reason, a right is missing
            return self._credentials.refused(f"the admin interface at {self._url}")
        if error.code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return mqplug.AccessDenied(
                f"the credentials do not allow this: {reason or _without_java(body)[:_MAX_REASON_CHARS]}",
                fix="Have the right granted to this role",
            )
        return AdminRefused(error.code, reason or _without_java(body)[:_MAX_REASON_CHARS])


def _no_answer(url: str, error: Exception) -> mqplug.ConnectError:
    """Return the error for a missing answer, or one that is not from Pulsar."""
    cause = getattr(error, "reason", error)
    reason, fix = str(cause), "Check admin_url="
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLCertVerificationError):
        reason, fix = (
            f"it does not speak TLS ({cause.reason})",
            "Write http:// in admin_url= if the port expects no TLS",
        )
    elif isinstance(error, HTTPException | ConnectionResetError):
        fix = "Check that admin_url= is the broker's HTTP port (8080), not its own (6650), and https:// if it has TLS"
    elif isinstance(error, ValueError):
        reason, fix = "it answers with something other than JSON", ADMIN_URL_FIX
    return mqplug.ConnectError(f"the admin interface at {url} gave no usable answer: {reason}", fix=fix)


def topic_path(full: str) -> str:
    """Return the path of a topic, from its full name."""
    domain, _, rest = full.partition("://")
    return "/".join([domain, *(quote(part, safe="") for part in rest.split("/", 2))])


def group_path(full: str, group: str) -> str:
    """Return the path of a group on a topic."""
    return f"{topic_path(full)}/subscription/{quote(group, safe='')}"


def topic_name(listed: str) -> str:
    """Return the full name of a topic from a list."""
    return unquote(listed)


def error_from_refusal(error: AdminRefused, topic: str | None = None) -> mqplug.Error:
    """Return the error for a refusal that the caller does not handle itself."""
    match error.status:
        case HTTPStatus.NOT_FOUND:
            return mqplug.TopicNotFound("the topic does not exist", topic=topic, fix="Create it with create_topic")
        case HTTPStatus.CONFLICT:
            return mqplug.TopicExists("the topic already exists", topic=topic)
        case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR or NO_OWNER_REASON in error.reason:
            return mqplug.ConnectError(f"no broker serves this yet: {error}", topic=topic, fix="Try again")
        case _:
            return mqplug.Error(f"the admin interface refused the request: {error}", topic=topic)


def _statistics(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer with statistics. A broker without bookies sends an error with status 200: raise it."""
    if "reason" in answer:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, _without_java(answer["reason"])[:_MAX_REASON_CHARS])
    return answer


def _reason(body: str) -> str | None:
    """Return the reason in a JSON answer; None in any other answer."""
    with suppress(ValueError, KeyError, TypeError):
        return _without_java(str(json.loads(body)["reason"]))[:_MAX_REASON_CHARS]
    return None


def _without_java(text: str) -> str:
    """Return an answer without its Java stack trace and without the packages of Java classes."""
    message = _TRACED_MESSAGE.search(text)
    reason = _TRACE.split(message[1] if message else text, maxsplit=1)[0].strip()
    return _JAVA_CLASS.sub(r"\1", reason)


def open_admin_interface(
    settings: PulsarSettings, credentials: Credentials, deadline: Deadline
) -> AdminInterface | None:
    """Return the admin interface; None without admin_url=, or if an optional one does not answer."""
    if settings.admin_url is None:
        return None
    admin = AdminInterface(settings, credentials)
    if not settings.admin_optional:
        return admin
    reason = admin.reason_against(max(0.01, min(ADMIN_PROBE_S, deadline.remaining() / 3)))
    if reason is None:
        return admin
    logger.warning(
        "no Pulsar admin interface at admin_url %s (%s): creating, deleting and listing topics, and reading the "
        "positions of groups, will fail. Correct admin_url=, or leave it out; set cluster= if ids are stored",
        settings.admin_url,
        reason,
    )
    return None
