"""Parts of the core that are wrong."""

from __future__ import annotations

import contextlib
import operator
import re
import zlib
from itertools import repeat

from mqplug import Client, Log, MessageId, Producer, _administration, _deadline, _ids, _text
from mqplug._config import urls
from mqplug._consume import seeking
from mqplug._consume.gate import Gate
from mqplug._consume.seeking import Seeker
from mqplug._produce import partitioners, record

# The cases about ids and records are about the core: (case, object, attribute, what is put in its place).
CORE_MUTANTS = [
    ("ID-01", _text, "_read_number", lambda field: int(float(field)) + 1),
    ("ID-02", _ids, "decode", lambda kind, text: (Log("b", "c", "t", 0), (len(text),), ())),
    ("ID-04", MessageId, "__hash__", object.__hash__),
    ("ID-05", MessageId, "__lt__", lambda one, other: one.coordinates <= other.coordinates),
    ("ID-07", _ids, "_same_log", lambda mine, other, coordinates: coordinates),
    ("ID-09", MessageId, "__lt__", lambda one, other: one.coordinates < getattr(other, "coordinates", (0,))),
    ("ID-11", _text, "crc32", zlib.adler32),
    ("ID-13", _text, "_PLAIN", re.compile("[ -}]*")),
    ("ID-14", MessageId, "__setattr__", object.__setattr__),
    ("ID-15", MessageId, "__lt__", lambda one, other: all(map(operator.lt, one.coordinates, other.coordinates))),
    ("ID-16", MessageId, "__eq__", lambda one, other: str(one) == str(other)),
    ("HP-11", record, "check_headers", lambda headers: ()),
    ("HP-14", record, "check_bytes", lambda what, value: value if value is None else bytes(value)),
    ("HP-15", record, "check_bytes", lambda what, value: value.encode() if isinstance(value, str) else value),
    ("LIF-01", Client, "__repr__", object.__repr__),
    ("LIF-15", Client, "unwrap", lambda client, kind: client),
    ("SEEK-07", seeking, "refuse_lost", lambda *anything: None),
    ("SEEK-08", seeking, "refuse_lost", lambda *anything: None),
    ("LIF-04", Client, "health", lambda client, timeout=30: None),
    ("PRO-08", Producer, "send_many", lambda producer, records: records[0]),
    ("KEY-06", partitioners, "cycle", lambda order: repeat(order[0])),
    ("TOP-02", _administration, "_differences", lambda wanted, there: []),
    ("ERR-06", urls, "shown", lambda url: url),
    ("SEEK-26", seeking, "check_log", lambda log, logs: None),
    ("SEEK-27", Seeker, "_positions", lambda seeker, start, partition, deadline: {}),
    ("CC-02", Gate, "receiving", contextlib.nullcontext),
    ("TO-02", _deadline, "check_timeout", lambda timeout: None),
]
