"""Every case id and the version that introduced it. Only a major version renames or removes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_NEW_IN: Final = {
    "0.1.0": """
    ACK-01 ACK-02 ACK-03 ACK-04 ACK-05 ACK-06 ACK-07 ACK-07-shared ACK-08 ACK-08-shared ACK-09 ACK-10 ACK-11
    ACK-11-shared ACK-12 ACK-13 ACK-14 ACK-15 ACK-16 ACK-17 ACK-18 ACK-19 ACK-20 ACK-20-shared ACK-21
    ACK-22 ACK-23 ACK-24 ACK-25 ACK-26 ACK-27 ACK-28
    ACK-29 ACK-29-shared ACK-30 ACK-31 ACK-32 ACK-33 ACK-34
    BIG-01 BIG-02 BIG-05 BIG-06 BIG-07 BIG-08 BIG-09
    CC-01 CC-02 CC-03 CC-04 CC-05 CC-06 CC-07 CC-08 CC-09 CC-10 CC-11 CC-12
    CLS-01 CLS-02 CLS-03 CLS-04 CLS-05 CLS-06 CLS-07 CLS-08 CLS-09 CLS-10 CLS-11 CLS-12
    CON-01 CON-02 CON-03 CON-04 CON-05 CON-06 CON-07 CON-08 CON-09 CON-10 CON-11 CON-12 CON-13 CON-14 CON-15 CON-16
    CON-17 CON-18 CON-19 CON-20 CON-21 CON-22 CON-23
    ERR-01 ERR-02 ERR-03 ERR-04 ERR-05 ERR-06 ERR-07 ERR-08 ERR-09 ERR-10 ERR-11 ERR-12 ERR-13 ERR-14
    FLT-01 FLT-02 FLT-03 FLT-04 FLT-05 FLT-06 FLT-07 FLT-08 FLT-09 FLT-10 FLT-11 FLT-12 FLT-13 FLT-14 FLT-15
    FLT-16 FLT-17 FLT-18 FLT-19
    GRP-01 GRP-02 GRP-03 GRP-04 GRP-05 GRP-06 GRP-07 GRP-08 GRP-09 GRP-10 GRP-11 GRP-12 GRP-13 GRP-14 GRP-15 GRP-16
    GRP-17 GRP-18 GRP-19 GRP-20 GRP-21 GRP-22 GRP-23 GRP-24 GRP-25 GRP-26 GRP-27 GRP-28 GRP-29 GRP-30 GRP-41 GRP-42
    HP-01 HP-02 HP-03 HP-04 HP-05 HP-06 HP-07 HP-08 HP-09 HP-10 HP-11 HP-12 HP-13 HP-14 HP-15 HP-16
    HP-17 HP-18 HP-19 HP-20 HP-21
    ID-01 ID-02 ID-03 ID-04 ID-05 ID-06 ID-07 ID-08 ID-09 ID-10 ID-11 ID-13 ID-14 ID-15 ID-16 ID-17
    KEY-01 KEY-02 KEY-03 KEY-04 KEY-05 KEY-06 KEY-07 KEY-08 KEY-10 KEY-11 KEY-12 KEY-13 KEY-14 KEY-15
    LIF-01 LIF-02 LIF-03 LIF-04 LIF-05 LIF-06 LIF-07 LIF-08 LIF-09 LIF-10 LIF-11 LIF-12 LIF-13 LIF-14 LIF-15
    LIF-16 LIF-17
    ORD-01 ORD-02 ORD-03 ORD-04 ORD-05 ORD-06 ORD-07 ORD-08 ORD-09 ORD-10 ORD-11 ORD-12 ORD-13 ORD-14
    ORD-15
    PRO-01 PRO-02 PRO-03 PRO-04 PRO-05 PRO-06 PRO-07 PRO-08 PRO-09 PRO-10 PRO-11 PRO-12 PRO-13 PRO-14 PRO-15 PRO-16
    PRO-17 PRO-19 PRO-20 PRO-21 PRO-22 PRO-24 PRO-27 PRO-28
    SEEK-01 SEEK-02 SEEK-03 SEEK-04 SEEK-05 SEEK-06 SEEK-07 SEEK-08 SEEK-09 SEEK-10 SEEK-11 SEEK-12 SEEK-13 SEEK-14
    SEEK-15 SEEK-16 SEEK-17 SEEK-18 SEEK-19 SEEK-20 SEEK-21 SEEK-22 SEEK-23 SEEK-24 SEEK-25 SEEK-26 SEEK-27
    SEEK-28 SEEK-29 SEEK-30 SEEK-31 SEEK-32 SEEK-33 SEEK-34 SEEK-35 SEEK-35-shared
    SEEK-36 SEEK-37 SEEK-38 SEEK-39
    STG-01 STG-02 STG-03 STG-04 STG-05 STG-06 STG-07 STG-08 STG-09 STG-10 STG-11 STG-12 STG-13 STG-14 STG-15 STG-16
    STG-17 STG-18 STG-19
    TO-01 TO-02 TO-03 TO-04 TO-05 TO-06 TO-07 TO-08 TO-09 TO-10 TO-11
    TOP-01 TOP-02 TOP-03 TOP-04 TOP-05 TOP-06 TOP-07 TOP-08 TOP-09 TOP-10 TOP-11 TOP-12 TOP-13 TOP-14 TOP-15
    TOP-16 TOP-17 TOP-19 TOP-20 TOP-21 TOP-22 TOP-23 TOP-24 TOP-25
    TX-01 TX-02 TX-03 TX-04 TX-05 TX-06 TX-07 TX-08 TX-09 TX-10 TX-11 TX-12 TX-13 TX-14 TX-15 TX-16 TX-17 TX-18
    TX-19 TX-20 TX-21 TX-22 TX-23 TX-24 TX-25 TX-26
    WM-01 WM-02 WM-03 WM-04 WM-05 WM-06 WM-07 WM-08 WM-09 WM-10 WM-11 WM-12 WM-13 WM-14 WM-15 WM-16 WM-17 WM-18 WM-19
    WM-20 WM-21 WM-22 WM-23 WM-24 WM-25 WM-26 WM-27 WM-28 WM-29 WM-30 WM-31 WM-32
    """,
}

SINCE: Final[dict[str, str]] = {case: version for version, cases in _NEW_IN.items() for case in cases.split()}

NO_CALL_YET: Final[dict[str, str]] = {
    "BIG-03": "messages are not split: one larger than message_max_bytes raises MessageTooLarge",
    "BIG-04": "messages are not split: one larger than message_max_bytes raises MessageTooLarge",
    "KEY-09": "no call compacts a topic",
    "PRO-18": "no call makes a producer the only one of its name",
    "PRO-23": "no call sends a message for later delivery",
}
"""Promises that cannot be checked because this version has no call for them. Their ids stay reserved."""


GROUPS: Final = tuple(sorted({case.partition("-")[0] for case in SINCE}))


def case_ids(names: Iterable[str]) -> frozenset[str]:
    """Return the ids of the cases named by a group, an id, or the beginning of an id: ``"SEEK,WM-05,ACK-1"``.

    Raise a ``ValueError`` for any other name, with the nearest known one.
    """
    return frozenset(case for each in names for name in each.split(",") for case in _named(name.strip()))


def _named(name: str) -> list[str]:
    if name in SINCE:
        return [name]
    group, dash, _ = name.partition("-")
    beginning = name if dash else f"{name}-"
    found = [case for case in SINCE if group in GROUPS and case.startswith(beginning)]
    if not found:
        raise ValueError(_unknown(name))
    return found


def _unknown(name: str) -> str:
    if name in NO_CALL_YET:
        return f"case {name} cannot run: {NO_CALL_YET[name]}"
    group = name.partition("-")[0]
    if group in GROUPS:
        cases = sorted(_named(group))
        return f"unknown case {name}; {group} has cases from {cases[0]} to {cases[-1]}"
    near = get_close_matches(name.upper(), [*GROUPS, *SINCE], 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"unknown case {name}. {hint}Write a group ({', '.join(GROUPS)}) or a case such as SEEK-05"


def check_known(_: object, __: object, known: Mapping[str, str]) -> None:
    """Refuse known failures of unknown cases, and known failures without a reason."""
    for unknown in sorted(known.keys() - SINCE.keys()):
        raise ValueError(_unknown(unknown))
    if unexplained := sorted(case for case, reason in known.items() if not reason):
        raise ValueError(f"known failures without a reason: {', '.join(unexplained)}")
