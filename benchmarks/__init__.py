"""Ratios, each from one run: mqplug beside the raw client, or beside a bare loop.

``python -m benchmarks core``, ``kafka`` or ``rocksmq``; ``--quick`` for a glance, ``--json FILE`` for a record.
"""

from __future__ import annotations
