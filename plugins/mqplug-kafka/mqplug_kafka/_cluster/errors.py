"""Maps the client's errors to mqplug errors, with their fixes and the rights that operations need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from mqplug import (
    AccessDenied,
    AuthError,
    ConfigError,
    ConnectError,
    ConsumerBusy,
    Error,
    Fenced,
    GroupNotFound,
    InvalidName,
    InvalidRecord,
    MessageTooLarge,
    NotAssigned,
    OutcomeUnknown,
    Timeout,
    TopicExists,
    TopicNotFound,
    Unsupported,
)
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    ListGroups,
    Sending,
    Trim,
)

K = KafkaError

TRANSIENT_CODES = {
    K.BROKER_NOT_AVAILABLE,
    K.COORDINATOR_LOAD_IN_PROGRESS,
    K.COORDINATOR_NOT_AVAILABLE,
    K.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    K.FENCED_LEADER_EPOCH,
    K.KAFKA_STORAGE_ERROR,
    K.LEADER_NOT_AVAILABLE,
    K.NOT_CONTROLLER,
    K.NOT_COORDINATOR,
    K.NOT_ENOUGH_REPLICAS,
    K.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    K.NOT_LEADER_FOR_PARTITION,
    K.OFFSET_NOT_AVAILABLE,
    K.REPLICA_NOT_AVAILABLE,
    K.UNKNOWN_LEADER_EPOCH,
}
"""Refusals of a broker that is not ready yet, or no longer the right one. They are raised only after the timeout."""

_KINDS: dict[int, type[Error]] = {
    **dict.fromkeys(TRANSIENT_CODES, Timeout),
    K.CONCURRENT_TRANSACTIONS: Timeout,
    K.NETWORK_EXCEPTION: Timeout,
    K.REBALANCE_IN_PROGRESS: Timeout,
    K.THROTTLING_QUOTA_EXCEEDED: Timeout,
    K._AUTHENTICATION: AuthError,
    K.SASL_AUTHENTICATION_FAILED: AuthError,
    K.UNSUPPORTED_SASL_MECHANISM: AuthError,
    K.TOPIC_AUTHORIZATION_FAILED: AccessDenied,
    K.GROUP_AUTHORIZATION_FAILED: AccessDenied,
    K.CLUSTER_AUTHORIZATION_FAILED: AccessDenied,
    K.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AccessDenied,
    K._SSL: ConnectError,
    K._TRANSPORT: ConnectError,
    K._RESOLVE: ConnectError,
    K._ALL_BROKERS_DOWN: ConnectError,
    K._TIMED_OUT: Timeout,
    K._TIMED_OUT_QUEUE: Timeout,
    K.REQUEST_TIMED_OUT: Timeout,
    K._WAIT_COORD: Timeout,
    K.UNKNOWN_TOPIC_OR_PART: TopicNotFound,
    K.UNKNOWN_TOPIC_ID: TopicNotFound,
    K._UNKNOWN_TOPIC: TopicNotFound,
    K._UNKNOWN_PARTITION: TopicNotFound,
    K.TOPIC_ALREADY_EXISTS: TopicExists,
    K.TOPIC_EXCEPTION: InvalidName,
    K.INVALID_CONFIG: ConfigError,
    K.INVALID_PARTITIONS: ConfigError,
    K.INVALID_REPLICATION_FACTOR: ConfigError,
    K.INVALID_SESSION_TIMEOUT: ConfigError,
    K.INCONSISTENT_GROUP_PROTOCOL: ConfigError,
    K.POLICY_VIOLATION: ConfigError,
    K._INVALID_ARG: ConfigError,
    K.INVALID_RECORD: InvalidRecord,
    K.INVALID_TIMESTAMP: InvalidRecord,
    K.MSG_SIZE_TOO_LARGE: MessageTooLarge,
    K.RECORD_LIST_TOO_LARGE: MessageTooLarge,
    K.NON_EMPTY_GROUP: ConsumerBusy,
    K.GROUP_ID_NOT_FOUND: GroupNotFound,
    K.OFFSET_METADATA_TOO_LARGE: ConfigError,
    K.ILLEGAL_GENERATION: NotAssigned,
    K.UNKNOWN_MEMBER_ID: NotAssigned,
    K.FENCED_INSTANCE_ID: Fenced,
    K.INVALID_PRODUCER_EPOCH: Fenced,
    K.PRODUCER_FENCED: Fenced,
    K._FENCED: Fenced,
    K.UNSTABLE_OFFSET_COMMIT: Timeout,
    K.INVALID_TRANSACTION_TIMEOUT: ConfigError,
    K.FENCED_MEMBER_EPOCH: NotAssigned,
    K.STALE_MEMBER_EPOCH: NotAssigned,
}

_CODE_FIXES: dict[int, str] = {
    K.INCONSISTENT_GROUP_PROTOCOL: "Choose the assignor= of the group's other members",
    K.FENCED_INSTANCE_ID: "Another member has this instance_id=: give each process a name of its own",
    K.INVALID_SESSION_TIMEOUT: "Choose a session_timeout= that the broker allows, by default 6 to 1800 seconds",
}
"""Fixes of single codes, which are more exact than the fix of their kind."""

_FATAL_FIXES: dict[int, str] = {
    K.GROUP_ID_NOT_FOUND: "The group has classic members, with another assignor than range or roundrobin: close them "
    "first, or set group_protocol='classic'",
    K.UNSUPPORTED_VERSION: "Set group_protocol='classic', or add consumer to the brokers' "
    "group.coordinator.rebalance.protocols",
    K.UNSUPPORTED_ASSIGNOR: "Choose an assignor= that group.consumer.assignors of the brokers lists",
}
"""Fixes of errors that end a member of the consumer protocol."""

_FIXES: dict[type[Error], str] = {
    AuthError: "Check username, password and mechanism",
    ConnectError: "Check servers=, and whether the brokers expect TLS and SASL",
    TopicNotFound: "Create it with create_topic, or open with create=True",
    ConfigError: "Fix the settings or options",
    MessageTooLarge: "Send less, or raise the limit of the topic and of the broker",
    ConsumerBusy: "Close the group's consumers first",
    Timeout: "Allow more time, or check that the brokers are up",
}

_RIGHTS: dict[int, str] = {
    K.TOPIC_AUTHORIZATION_FAILED: "Describe on the topic, with Read to receive from it and Write to send to it",
    K.GROUP_AUTHORIZATION_FAILED: "Read on the group",
    K.CLUSTER_AUTHORIZATION_FAILED: "Write on the topic",  # brokers use it for the right to send idempotently
    K.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional id",
}

REMOVED_CODES = {K._AUTO_OFFSET_RESET, K.OFFSET_OUT_OF_RANGE}
"""Codes that report that the wanted messages were removed."""

FENCED_CODES = {K._FENCED, K.PRODUCER_FENCED, K.INVALID_PRODUCER_EPOCH}
"""Codes that report that another producer took over the transaction name."""

BATCH_TOO_LARGE_CODES = {K.MSG_SIZE_TOO_LARGE, K.RECORD_LIST_TOO_LARGE}
INVALID_RECORD_CODES = {K.INVALID_RECORD, K.INVALID_TIMESTAMP, K._INVALID_DIFFERENT_RECORD}
BATCH_REFUSED_CODES = BATCH_TOO_LARGE_CODES | INVALID_RECORD_CODES
"""Codes with which a broker refuses a whole batch: its records may be stored if they are sent in other batches."""

NOT_STORED_CODES = BATCH_REFUSED_CODES | {
    K.POLICY_VIOLATION,
    K.TOPIC_EXCEPTION,
    K.TOPIC_AUTHORIZATION_FAILED,
    K.CLUSTER_AUTHORIZATION_FAILED,
    K.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    K.UNKNOWN_TOPIC_OR_PART,
    K._UNKNOWN_TOPIC,
    K._UNKNOWN_PARTITION,
    K._PURGE_QUEUE,
}
"""Codes that prove that a record was not stored: every attempt gets the same refusal, so no earlier one succeeded."""

_NEEDED_RIGHTS: dict[type[Action], str] = {
    CreateTopic: "Create on the topic, or on the cluster, and Describe on the topic",
    AlterTopic: "Describe and AlterConfigs on the topic",
    AddPartitions: "Describe and Alter on the topic",
    DeleteTopic: "Describe and Delete on the topic",
    DescribeTopic: "Describe on the topic",
    DescribeTopics: "Describe on the topic",
    DescribeGroup: "Describe on the topic, and Describe or Read on the group",
    DescribeGroupMembers: "Describe on its topics, and Describe or Read on the group",
    ListGroups: "Describe or Read on the group",
    DeleteGroup: "Delete on the group",
    Trim: "Describe and Delete on the topic",
}


def client_error(error: KafkaError | KafkaException) -> KafkaError:
    """Return the client's error, which an exception wraps."""
    return error.args[0] if isinstance(error, KafkaException) else error


def code_of(error: Error) -> int | None:
    """Return the client's code in the cause of a typed error, or None."""
    cause = error.__cause__
    return client_error(cause).code() if isinstance(cause, KafkaException) else None


def is_transient(error: Error) -> bool:
    """Return whether a broker refused a request because it is not ready yet, or no longer the right one."""
    code = code_of(error)
    if code == K.INVALID_REPLICATION_FACTOR:  # also while brokers that are starting or slow are not eligible
        return "currently fenced" in error.message
    return code in TRANSIENT_CODES


def typed_error(error: KafkaError | KafkaException, what: str, kind: type[Error] | None = None) -> Error:
    """Return the typed error for a client's error; ``kind`` overrides the table."""
    inner = client_error(error)
    kind = kind or _KINDS.get(inner.code(), Error)
    fix = needed(_RIGHTS[inner.code()]) if inner.code() in _RIGHTS else _CODE_FIXES.get(inner.code(), _FIXES.get(kind))
    made = kind(f"{what}: {inner.str()} ({inner.name()})", fix=fix)
    if kind is Error:
        made.retryable = inner.retriable()
    made.__cause__ = error if isinstance(error, KafkaException) else KafkaException(error)
    return made


def ended(error: KafkaError) -> Error:
    """Return the error of a member whose client ended for good. Only the error's text contains the cause."""
    for code, fix in _FATAL_FIXES.items():
        if KafkaError(code).str() in error.str():
            made = typed_error(error, "receive", ConfigError)
            made.fix = fix
            return made
    return typed_error(error, "receive", Fenced)


def not_stored(error: KafkaError | KafkaException) -> Error:
    """Return the error of a record that is proven not to be stored."""
    return typed_error(error, "the record was refused")


def refused_with_batch(error: KafkaError) -> Error:
    """Return the error of a record of a refused batch that could not be sent again."""
    made = typed_error(error, "the broker refused the record's batch", Error)
    made.fix = "Send it again: mqplug does not, because later records of its partition may be stored"
    made.retryable = True
    return made


def invalid_record(error: KafkaError, sending: Sending, compacted: bool | None) -> Error:
    """Return the error of a record that the broker finds invalid, with the likely cause."""
    made = typed_error(error, "the broker finds the record invalid")
    if sending.key is None and compacted is not False:
        made.fix = "Give it a key: " + ("the topic is compacted" if compacted else "compacted topics need one")
    elif sending.timestamp is not None:
        made.fix = "Check its timestamp against the topic's message.timestamp.before.max.ms and after.max.ms"
    else:
        made.fix = "Look up the reason in the broker's log: a validation of the topic or of a broker plugin refuses it"
    return made


def maybe_stored(error: KafkaError) -> OutcomeUnknown:
    """Return the error of a record that may or may not be stored."""
    made = OutcomeUnknown(
        f"no broker confirmed the record: {error.str()} ({error.name()})",
        fix="Look for it in the topic before you send it again",
    )
    made.__cause__ = KafkaException(error)
    return made


def bad_time(milliseconds: int, why: str) -> Unsupported:
    """Return the error of a record whose timestamp Kafka cannot store unchanged."""
    return Unsupported("timestamps_producer", f"a record with the timestamp {milliseconds} ms cannot be stored: {why}")


def needed(rights: str) -> str:
    """Return the fix for a missing right."""
    return f"Have it allowed in the brokers' access control lists: it needs {rights}"


@contextmanager
def naming_rights(action: Action) -> Iterator[None]:
    """Make an ``AccessDenied`` of this action name the rights that it needs."""
    try:
        yield
    except AccessDenied as error:
        if type(action) in _NEEDED_RIGHTS:
            error.fix = needed(_NEEDED_RIGHTS[type(action)])
        raise
