"""Connects within the timeout, with a distinct error for each cause of failure."""

from __future__ import annotations

import logging
import math
import os
import socket
from threading import Thread

import _pulsar
import attrs
import pulsar

import mqplug
from mqplug.spi import Capabilities, Deadline
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused
from mqplug_pulsar._cluster.at_exit import close_at_exit
from mqplug_pulsar._cluster.connection import ClusterFacts, PulsarConnection
from mqplug_pulsar._cluster.credentials import authentication, with_token
from mqplug_pulsar._format.topic_names import NamespaceTopics
from mqplug_pulsar._settings import PulsarSettings

METADATA_BYTES = 10 * 1024  # room for the metadata that the client sends with a message
TCP_TIMEOUT_S = 10.0
ADMIN_PROBE_S = 3.0  # for finding out whether admin_url= leads to an admin interface

logger = logging.getLogger("mqplug.pulsar")


def connect(settings: PulsarSettings, declared: Capabilities, timeout: float) -> PulsarConnection:
    """Connect, and check that a Pulsar broker answers and accepts the credentials."""
    deadline = Deadline(timeout)
    _check_files(settings)
    settings = with_token(settings)
    _reach(settings, deadline)
    admin = _administration(settings, deadline)
    facts = _ask_cluster(settings, admin, declared, deadline.remaining())
    names = NamespaceTopics(settings.tenant, settings.namespace)
    client = _client(settings, max(0.1, timeout))
    close_at_exit(client)
    connection = PulsarConnection(settings.service_url, names, client, admin, facts)
    try:
        connection.health(deadline.remaining())
    except BaseException:
        Thread(target=connection.close, args=(0,), name="mqplug-pulsar-close", daemon=True).start()
        raise
    return connection


def _reach(settings: PulsarSettings, deadline: Deadline) -> None:
    """Raise at once for refused ports and unknown hosts, which the native client would try until its timeout."""
    failure: OSError | None = None
    for address in settings.addresses:
        try:
            left = max(0.01, deadline.remaining(TCP_TIMEOUT_S))
            socket.create_connection(address, timeout=left).close()
            return
        except OSError as error:
            failure = error
    raise mqplug.ConnectError(
        f"no broker could be reached at {settings.service_url}: {failure}", fix="Check service_url="
    ) from failure


def _administration(settings: PulsarSettings, deadline: Deadline) -> AdminInterface | None:
    """Return the admin interface; None without admin_url=, or if an optional one does not answer."""
    if settings.admin_url is None:
        return None
    admin = AdminInterface(settings)
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


def _client(settings: PulsarSettings, timeout: float) -> pulsar.Client:
    try:
        return pulsar.Client(
            settings.service_url,
            authentication=authentication(settings),
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
    settings: PulsarSettings, admin: AdminInterface | None, declared: Capabilities, timeout: float
) -> ClusterFacts:
    """Ask the admin interface about the cluster. It reports bad credentials, which the broker never does."""
    if settings.message_max_bytes is not None:
        declared = attrs.evolve(declared, message_max_bytes=settings.message_max_bytes)
    if admin is None:
        without = attrs.evolve(declared, delete_topic=False, add_partitions=False, list_topics=False, retention=False)
        return ClusterFacts(settings.cluster or "", without)
    try:
        running = admin.get("brokers/configuration/runtime", timeout)
    except (mqplug.AccessDenied, AdminRefused):  # not an administrator of the cluster
        return ClusterFacts(settings.cluster or _only_cluster(admin, timeout), declared)
    except mqplug.Timeout as error:
        raise mqplug.ConnectError("the admin interface did not answer in time", fix="Check admin_url=") from error
    largest = int(running.get("maxMessageSize", 5 * 1024 * 1024)) - METADATA_BYTES
    facts = attrs.evolve(
        declared,
        message_max_bytes=min(settings.message_max_bytes or largest, largest),
        ack_granularity="message" if running.get("acknowledgmentAtBatchIndexLevelEnabled") == "true" else "entry",
    )
    return ClusterFacts(settings.cluster or str(running["clusterName"]), facts)


def _only_cluster(admin: AdminInterface, timeout: float) -> str:
    try:
        clusters = admin.get("clusters", timeout)
    except (mqplug.AccessDenied, AdminRefused):
        clusters = []
    if len(clusters) == 1:
        return str(clusters[0])
    raise mqplug.ConfigError(
        f"the cluster's name, part of every id, is unknown: the admin interface shows {len(clusters)} clusters",
        backend="pulsar",
        fix="Say cluster=",
    )
