"""``milvus.yaml``, read as it is: what it says about its message queue, in our words.

That file configures all of Milvus: whatever has no meaning for a message log is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mqplug._config.layers import Unset

_OWN: Final = frozenset({"mq", "etcd", "minio", "rootCoord", "queryNode", "dataNode", "proxy"})
_SPELLINGS: Final = (
    ("kafka", frozenset({"brokerList", "brokers"})),
    ("pulsar", frozenset({"address"})),
    ("rocksmq", frozenset({"lrucacheratio", "rocksmqPageSize", "retentionTimeInMinutes"})),
)


def is_milvus(name: str, content: Mapping[str, Any]) -> bool:
    """Whether this is Milvus' configuration: by the file's name, or by what is in it."""
    if "milvus" in name.lower() or _OWN & content.keys():
        return True
    return any(words & _table(content, section).keys() for section, words in _SPELLINGS)


def translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """What Milvus' configuration says, as ``mqplug.toml`` would say it."""
    found: dict[str, Any] = {
        section: {key: value for key, value in read(_table(content, section)).items() if not _blank(value)}
        for section, read in _READERS.items()
        if _table(content, section)
    }
    kind = _text(_table(content, "mq").get("type"))
    return found if kind in {None, "default"} else {"backend": kind, **found}


def _kafka(said: Mapping[str, Any]) -> dict[str, Any]:
    ssl = _table(said, "ssl")
    username = _text(said.get("saslUsername"))
    protocol = str(_text(said.get("securityProtocol")) or ("SASL_SSL" if username else "")).upper()
    tls = _is_true(ssl.get("enabled")) or protocol in {"SSL", "SASL_SSL"}
    files = {"ca_file": "tlsCACert", "cert_file": "tlsCert", "key_file": "tlsKey", "key_password": "tlsKeyPassword"}
    return {
        "servers": _servers(said),
        "username": username,
        "password": _text(said.get("saslPassword")),
        "mechanism": _text(said.get("saslMechanisms")),
        "tls": tls or None,
        **({name: _text(ssl.get(milvus)) for name, milvus in files.items()} if tls else {}),
    }


def _servers(said: Mapping[str, Any]) -> Any:
    given = said.get("brokerList") or said.get("brokers") or []
    if isinstance(given, Unset):
        return given
    hosts = given if isinstance(given, list) else str(given).split(",")
    names = [str(host).strip() for host in hosts if str(host).strip()]
    port = said.get("port") or 9092
    return [name if ":" in name else f"{name}:{port}" for name in names]


def _pulsar(said: Mapping[str, Any]) -> dict[str, Any]:
    address = _text(said.get("address"))
    if address is None or isinstance(address, Unset):
        return {"service_url": address}
    if "://" not in address:
        address = f"pulsar://{address}" if ":" in address else f"pulsar://{address}:{said.get('port') or 6650}"
    host = urlsplit(address).hostname
    web = said.get("webport")
    return {
        "service_url": address,
        "admin_url": f"http://{host}:{web}" if web and address.startswith("pulsar://") else None,
        "tenant": _text(said.get("tenant")),
        "namespace": _text(said.get("namespace")),
        "token": _token(said.get("authParams")),
        "message_max_bytes": said.get("maxMessageSize"),
    }


def _token(given: Any) -> Any:
    """The token in ``authParams``, which is a mapping or ``token:…``."""
    if isinstance(given, Mapping | Unset):
        return given if isinstance(given, Unset) else _text(given.get("token"))
    name, colon, token = (_text(given) or "").partition(":")
    return token if colon and name.strip('{" ') == "token" else None


def _rocksmq(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": _text(said.get("path"))}


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "kafka": _kafka,
    "pulsar": _pulsar,
    "rocksmq": _rocksmq,
}


def _table(content: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = content.get(section)
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> Any:
    """The value as a text; None for a blank; a missing variable is left to who needs it."""
    return value if value is None or isinstance(value, Unset) else str(value) or None


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _blank(value: Any) -> bool:
    return value is None or value == []
