"""Finds the topics that a pattern may match, in the connection's namespace or in others.

A pattern that begins with ``persistent://`` is compared with full names, in all namespaces that it can match. Listing
tenants and namespaces needs more rights, and is done only where the pattern does not name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import attrs

import mqplug
from mqplug.spi import Deadline
from mqplug_pulsar._admin import topics
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused, error_from_refusal
from mqplug_pulsar._cluster.connection import PulsarConnection

FULL = "persistent://"
_LITERAL = re.compile(r"(?:[A-Za-z0-9_=:-]|\\[^A-Za-z0-9])+")
_SYSTEM = "pulsar/system"  # the brokers' own namespace


@attrs.frozen
class Scope:
    """The place of a pattern's topics: a pattern each for tenant and namespace, or None for all."""

    tenant: str | None
    namespace: str | None


def candidates(connection: PulsarConnection, pattern: str, timeout: float) -> list[str]:
    """Return the topics that a pattern may match: plain names, or full names if it begins with ``persistent://``."""
    if not pattern.startswith(FULL):
        return topics.names(connection, timeout)
    admin, deadline = connection.required_admin("topic_patterns", "reading topics by a pattern"), Deadline(timeout)
    namespaces = {each for scope in scopes(pattern) for each in _namespaces(admin, scope, deadline)}
    lists = {each: partial(_topics, admin, each, deadline) for each in namespaces}
    found = connection.calls.each(lists, max(0.1, deadline.remaining()))
    return sorted(set().union(*found.values()))


def scopes(pattern: str) -> Iterator[Scope]:
    """Yield a scope for each alternative of a pattern of full names."""
    for alternative in _split(pattern, "|"):
        parts = _split(alternative.removeprefix(FULL), "/")
        if not alternative.startswith(FULL) or len(parts) == 1 or "/" in parts[0]:
            yield Scope(None, None)
        elif len(parts) == 2 or "/" in parts[1]:
            yield Scope(parts[0], None)
        else:
            yield Scope(parts[0], parts[1])


def _split(pattern: str, separator: str) -> list[str]:
    """Split a regular expression at a character outside groups and sets."""
    parts, depth, in_set = [""], 0, False
    for symbol in re.findall(r"\\.|.", pattern, re.DOTALL):
        if in_set:
            in_set = symbol != "]"
        elif symbol == separator and not depth:
            parts.append("")
            continue
        elif symbol == "[":
            in_set = True
        else:
            depth += (symbol == "(") - (symbol == ")")
        parts[-1] += symbol
    return parts


def _namespaces(admin: AdminInterface, scope: Scope, deadline: Deadline) -> Iterator[str]:
    """Yield the namespaces of a scope, each as ``tenant/namespace``."""
    tenants = _literal(scope.tenant) or _matching(scope.tenant, _list(admin, "tenants", "the tenants", deadline))
    for tenant in tenants:
        if named := _literal(scope.namespace):
            yield from (f"{tenant}/{each}" for each in named)
            continue
        every = _list(admin, f"namespaces/{quote(tenant, safe='')}", f"the namespaces of tenant {tenant!r}", deadline)
        found = _matching(scope.namespace, (each.partition("/")[2] for each in every))
        yield from (full for each in found if (full := f"{tenant}/{each}") != _SYSTEM)


def _literal(pattern: str | None) -> list[str]:
    """Return a list of the only name that a pattern can match; an empty list if there may be several."""
    if pattern is None or not _LITERAL.fullmatch(pattern):
        return []
    return [re.sub(r"\\(.)", r"\1", pattern)]


def _matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    if pattern is not None:
        with suppress(re.error):  # this part may be valid only within the whole pattern
            return [name for name in names if re.fullmatch(pattern, name)]
    return list(names)


def _list(admin: AdminInterface, path: str, what: str, deadline: Deadline) -> list[str]:
    try:
        found: list[Any] = admin.get(path, max(0.1, deadline.remaining()))
    except mqplug.AccessDenied as error:
        raise mqplug.AccessDenied(
            f"the pattern needs a list of {what}, which the credentials do not allow: {error.message}",
            fix="Name tenant and namespace in the pattern, or use a role that may list them",
        ) from error
    except AdminRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return []
        raise error_from_refusal(error) from error
    return [str(each) for each in found]


def _topics(admin: AdminInterface, namespace: str, deadline: Deadline) -> set[str]:
    """Return the full names of a namespace's topics; none if the namespace does not exist (yet)."""
    tenant, _, name = namespace.partition("/")
    try:
        return topics.full_names(admin, tenant, name, max(0.1, deadline.remaining()))
    except AdminRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return set()
        raise error_from_refusal(error) from error
