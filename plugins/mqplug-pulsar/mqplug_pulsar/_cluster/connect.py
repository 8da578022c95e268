"""Connects within the timeout, with a distinct error for each cause of failure."""

from __future__ import annotations

import logging
import math
import os
from functools import partial
from threading import Thread
from typing import Any

import _pulsar
import attrs
import pulsar

import mqplug
from mqplug.spi import Capabilities, Deadline
from mqplug_pulsar._cluster import native_part
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminInterface, AdminRefused
from mqplug_pulsar._cluster.at_exit import close_at_exit
from mqplug_pulsar._cluster.connection import ADMIN_CAPABILITIES, PROBE_NAME, ClusterFacts, PulsarConnection
from mqplug_pulsar._cluster.credentials import Credentials
from mqplug_pulsar._cluster.handshake import Greeting, shake_hands
from mqplug_pulsar._format.topic_names import NamespaceTopics
from mqplug_pulsar._settings import PulsarSettings

METADATA_BYTES = 10 * 1024  # room for the metadata that the client sends with a message
ANY_STANDALONE = "standalone"  # the name of each standalone broker; cluster= tells them apart
ADMIN_PROBE_S = 3.0  # for finding out whether admin_url= leads to an admin interface

logger = logging.getLogger("mqplug.pulsar")


def connect(settings: PulsarSettings, declared: Capabilities, timeout: float) -> PulsarConnection:
    """Connect, and check that a Pulsar broker answers and accepts the credentials."""
    deadline = Deadline(timeout)
    _check_files(settings)
    for kind in ("reading", "sending"):
        native_part.find(settings, kind)  # or a ConfigError, if the settings require it
    credentials = Credentials(settings)
    authentication = credentials.native()  # gets the first token, so that a wrong setting is named before any I/O
    names = NamespaceTopics(settings.tenant, settings.namespace)
    greet = partial(shake_hands, settings, credentials, names.prefix + PROBE_NAME)
    welcome = greet(deadline)
    if welcome.service_url != settings.service_url:
        logger.warning("no broker answers at some of %s: going on with %s", settings.service_url, welcome.service_url)
    admin = _administration(settings, credentials, deadline)
    facts = _ask_cluster(settings, admin, _limited(settings, declared, welcome.greeting), deadline)
    client = _client(settings, welcome.service_url, authentication, max(0.1, timeout))
    close_at_exit(client)
    connection = PulsarConnection(settings, names, client, admin, facts, greet)
    try:
        connection.health(deadline.remaining())
    except BaseException:
        Thread(target=connection.close, args=(0,), name="mqplug-pulsar-close", daemon=True).start()
        raise
    return connection


def _limited(settings: PulsarSettings, declared: Capabilities, greeting: Greeting) -> Capabilities:
    """Return the capabilities with the size of the largest message, from the broker and the settings."""
    largest = settings.message_max_bytes or declared.message_max_bytes
    if greeting.message_max_bytes is not None:
        most = greeting.message_max_bytes - METADATA_BYTES
        largest = min(settings.message_max_bytes or most, most)
    return attrs.evolve(declared, message_max_bytes=largest)


def _administration(settings: PulsarSettings, credentials: Credentials, deadline: Deadline) -> AdminInterface | None:
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
        "positions of groups, will fail. Correct admin_url=, or leave it out; say cluster= if ids are stored",
        settings.admin_url,
        reason,
    )
    return None


def _check_files(settings: PulsarSettings) -> None:
    for name in ("tls_ca", "tls_certificate", "tls_key"):
        path = getattr(settings, name)
        if path is not None and not os.access(path, os.R_OK):
            raise mqplug.ConfigError(f"the file {path!r} of {name} cannot be read", fix=f"Check {name}=")


def _client(
    settings: PulsarSettings, service_url: str, authentication: pulsar.Authentication | None, timeout: float
) -> pulsar.Client:
    try:
        return pulsar.Client(
            service_url,
            authentication=authentication,
            operation_timeout_seconds=max(1, min(30, math.ceil(timeout))),
            connection_timeout_ms=max(100, min(10_000, int(timeout * 1000))),
            tls_trust_certs_file_path=settings.tls_ca,
            tls_allow_insecure_connection=settings.tls_allow_insecure,
            tls_validate_hostname=settings.secure and settings.tls_validate_hostname,
            listener_name=settings.listener_name,
            # Never a Python logger: with one, processes sometimes aborted at their end.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, settings.log_file or os.devnull),
        )
    except (_pulsar.PulsarException, ValueError, RuntimeError) as error:
        message = f"the native client refused its settings: {error}"
        raise mqplug.ConfigError(message, fix="Check service_url=") from error


def _ask_cluster(
    settings: PulsarSettings, admin: AdminInterface | None, declared: Capabilities, deadline: Deadline
) -> ClusterFacts:
    """Ask the admin interface about the cluster, as far as this client may."""
    if admin is None:
        lacking: dict[str, Any] = dict.fromkeys(ADMIN_CAPABILITIES, False)
        return ClusterFacts(settings.cluster or "", attrs.evolve(declared, **lacking))
    try:
        running = admin.get("brokers/configuration/runtime", deadline.remaining())
    except (mqplug.AccessDenied, AdminRefused):  # not an administrator of the cluster
        return ClusterFacts(settings.cluster or _only_cluster(settings, admin, deadline.remaining()), declared)
    except mqplug.Timeout as error:
        raise mqplug.ConnectError("the admin interface did not answer in time", fix="Check admin_url=") from error
    if not isinstance(running, dict) or "clusterName" not in running:
        raise _not_pulsar(settings, "the answer is not Pulsar's")
    by_index = running.get("acknowledgmentAtBatchIndexLevelEnabled") == "true"
    facts = attrs.evolve(declared, ack_granularity="message" if by_index else "entry")
    name = str(running["clusterName"])
    if settings.cluster not in {None, name} and name != ANY_STANDALONE:
        logger.warning(
            "cluster=%s replaces the cluster's own name, %s, in ids: clients without cluster= refuse them",
            settings.cluster, name,
        )  # fmt: skip
    return ClusterFacts(settings.cluster or name, facts)


def _only_cluster(settings: PulsarSettings, admin: AdminInterface, timeout: float) -> str:
    """Return the cluster's name for a role that is no superuser; ``ConfigError`` if there are several."""
    try:
        clusters = admin.get("clusters", timeout)
    except mqplug.AccessDenied:
        clusters = []
    except AdminRefused as error:
        raise _not_pulsar(settings, f"HTTP {error.status}") from error
    except mqplug.Timeout as error:
        raise mqplug.ConnectError("the admin interface did not answer in time", fix="Check admin_url=") from error
    if len(clusters) == 1:
        return str(clusters[0])
    raise mqplug.ConfigError(
        f"the cluster's name, part of every id, is unknown: the admin interface shows {len(clusters)} clusters",
        backend="pulsar",
        fix="Say cluster=",
    )


def _not_pulsar(settings: PulsarSettings, reason: str) -> mqplug.ConnectError:
    return mqplug.ConnectError(
        f"no Pulsar admin interface answers at {settings.admin_url}: {reason}", backend="pulsar", fix=ADMIN_URL_FIX
    )
