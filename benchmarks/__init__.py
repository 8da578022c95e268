"""Benchmarks: the speed of mqplug compared with the vendors' clients, bare loops and other libraries, in one run.

Run ``python -m benchmarks core``, ``kafka``, ``rocksmq`` or ``spark``; ``all`` takes the published figures. ``--quick``
only checks that a suite runs; ``--json FILE`` writes every sample.
"""

from __future__ import annotations
