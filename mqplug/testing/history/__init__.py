"""The history check: random work and faults against one backend, and a search for what may not be.

``check_history`` runs it; ``check`` searches a history that was kept. The page on the history check says what is
looked for, and what is legal.
"""

from __future__ import annotations

from mqplug.testing.history._anomaly import KINDS, Anomaly
from mqplug.testing.history._checker import check
from mqplug.testing.history._events import Event
from mqplug.testing.history._history import Guarantee, History
from mqplug.testing.history._plan import Plan
from mqplug.testing.history._run import check_history
from mqplug.testing.history._shrink import shrink
from mqplug.testing.history._verdict import Verdict

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
