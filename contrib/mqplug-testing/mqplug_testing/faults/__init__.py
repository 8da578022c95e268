"""Injected faults: an extension that loses, delays, repeats and fails messages and calls.

For tests of your own code, on any backend::

    from mqplug_testing.faults import Faults, Rule

    trouble = Faults([Rule("send", "lose_ack", topic="orders", nth=3)])
    with mqplug.connect("memory", extensions=[trouble]) as mq:
        ...                      # the third send to "orders" is stored, and reported as OutcomeUnknown
    print(trouble.happened)
"""

from __future__ import annotations

from mqplug_testing.faults._extension import Faults
from mqplug_testing.faults._rules import Happened, Rule

__all__ = ["Faults", "Happened", "Rule"]
