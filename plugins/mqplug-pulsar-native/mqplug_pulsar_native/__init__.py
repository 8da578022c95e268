"""The compiled part of mqplug-pulsar. It imports nothing of mqplug, and only mqplug-pulsar imports it.

Importing it raises ``ImportError`` where the compiled part was not built, or pulsar-client lacks a function.
"""

from __future__ import annotations

import _pulsar

from mqplug_pulsar_native._native import load

load(_pulsar.__file__)

__all__: list[str] = []
