"""What ``mqplug demo`` does, and how it judges what it saw."""

from __future__ import annotations
