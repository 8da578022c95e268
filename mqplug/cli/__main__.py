"""``python -m mqplug.cli`` is ``mqplug``."""

from __future__ import annotations

from mqplug.cli import main

main()
