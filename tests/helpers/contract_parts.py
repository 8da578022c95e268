"""The cases of the contract in two parts: those that disturb the server of their harness, and all others."""

from __future__ import annotations

from mqplug_testing import CASES, DISTURBING_HOOKS, Case

OF_A_TOPIC = {"unload"}  # it disturbs only its own topic
OF_A_SERVER_OF_ONES_OWN = {*DISTURBING_HOOKS, "outage", "intruder"} - OF_A_TOPIC


def _disturbs(case: Case) -> bool:
    return not OF_A_SERVER_OF_ONES_OWN.isdisjoint(case.hooks)


DISTURBING = tuple(case.id for case in CASES if _disturbs(case))
UNDISTURBED = tuple(case.id for case in CASES if not _disturbs(case))
