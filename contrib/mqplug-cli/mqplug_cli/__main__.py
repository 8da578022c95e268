"""``python -m mqplug_cli`` is ``mqplug``."""

from __future__ import annotations

from mqplug_cli import main

main()
