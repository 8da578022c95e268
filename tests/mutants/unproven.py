"""Cases that no mutant proves, each with the reason."""

from __future__ import annotations

PROCESS = "another process has to reach the same store, and memory lives in one"

UNPROVEN = dict.fromkeys(
    [
        "ACK-21", "ACK-24", "CLS-10", "CON-15", "FLT-06", "FLT-07", "FLT-08", "GRP-06", "GRP-41", "GRP-42", "KEY-14",
        "LIF-09", "STG-18", "STG-19", "TX-15",
    ],
    PROCESS,
)  # fmt: skip
