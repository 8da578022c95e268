"""What the mutants kill beside the case that each was made for, so that no case passes whatever happens."""

from __future__ import annotations

ALSO = {
    "SwapsNeighbours": """
        ACK-04 ACK-05 ACK-09 ACK-10 ACK-14 ACK-15 ACK-16 ACK-19 CC-01 CC-03 CC-04 CLS-05 CLS-06 CLS-07
        CLS-08 CLS-09 CLS-11 CON-01 CON-02 CON-04 CON-07 CON-09 CON-10 CON-11 CON-12 CON-13 ERR-08 GRP-01
        GRP-03 GRP-09 GRP-14 GRP-15 HP-01 HP-04 HP-06 HP-07 HP-09 HP-10 HP-12 HP-16 ID-03 ID-06 KEY-03
        KEY-08 LIF-10 ORD-05 ORD-09 ORD-10 ORD-11 PRO-02 PRO-09 PRO-15 PRO-17 PRO-19 PRO-20 SEEK-01 SEEK-02
        SEEK-05 SEEK-09 SEEK-12 SEEK-14 SEEK-15 SEEK-21 SEEK-22 SEEK-23 SEEK-24 SEEK-28 SEEK-31 SEEK-32
        SEEK-33 TOP-04 TOP-09 TOP-13 TOP-15 WM-04 WM-10 WM-11 WM-20
    """,
    "StoresInReverse": """
        PRO-04 SEEK-10
    """,
    "DropsAHeader": """
        CON-08 HP-08 PRO-12
    """,
    "MissingTopicIsEmpty": """
        ERR-01 ERR-02 ERR-03 ERR-09 TOP-01 TOP-03 TOP-06 TOP-08
    """,
    "CommittedIsHigh": """
        GRP-10
    """,
    "HighIsShort": """
        LIF-08 SEEK-19 WM-02 WM-09 WM-17
    """,
    "CountsMore": """
        WM-14
    """,
    "NextPartition": """
        KEY-04
    """,
    "Everybody": """
        GRP-04 TO-09
    """,
    "LatestDeliversLast": """
        CC-05 CC-06 CLS-01 ERR-04 LIF-03 ORD-03 PRO-03 PRO-06 PRO-11 PRO-13 PRO-14 SEEK-04 TOP-07
    """,
    "LatestOnEmptySkips": """
        SEEK-17
    """,
    "TimeIsExclusive": """
        SEEK-18
    """,
    "TakesItsTime": """
        TO-01
    """,
    "DropsEveryTenth": """
        GRP-08 KEY-02
    """,
    "OtherIdsThanSent": """
        GRP-19 LIF-11 ORD-02 PRO-01
    """,
    "GivesUpAtClose": """
        CLS-02 KEY-05 LIF-12
    """,
    "TellsLate": """
        KEY-07 LIF-14 WM-15
    """,
}
"""By the name of the mutant."""

UNPROVEN = """
    ACK-21 CLS-04 CLS-10 CON-15 ERR-07 FLT-01 FLT-02 FLT-03 FLT-06 FLT-07 FLT-08 FLT-13 FLT-14 GRP-06
    LIF-05 LIF-06 LIF-07 TO-05
"""
"""Cases that need another process or a server, for which memory cannot stand; or whose mutants are in test_faults."""
