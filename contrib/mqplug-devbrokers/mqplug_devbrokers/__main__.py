"""Runs the command as `python -m mqplug_devbrokers`."""

from __future__ import annotations

import sys

from mqplug_devbrokers.cli import main

sys.exit(main())
