"""The steps of ``mqplug demo``, and its verdict."""

from __future__ import annotations
