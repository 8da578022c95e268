"""The history check: random work and faults on one backend, and a search for anything it must not do.

``check_history`` runs it; ``check`` searches a saved history. The page on the history check lists the anomalies, and
which behaviour is legal.
"""

from __future__ import annotations

from mqplug_testing.history._actors.run_context import Plan
from mqplug_testing.history._checker.anomaly import KINDS, Anomaly
from mqplug_testing.history._checker.checker import check, shrink
from mqplug_testing.history._events import Event
from mqplug_testing.history._history import Guarantee, History
from mqplug_testing.history._run.check_history import check_history
from mqplug_testing.history._run.verdict import Verdict

__all__ = [
    "KINDS",
    "Anomaly",
    "Event",
    "Guarantee",
    "History",
    "Plan",
    "Verdict",
    "check",
    "check_history",
    "shrink",
]
