"""`python -m mqplug_devbrokers` is the command."""

from __future__ import annotations

import sys

from mqplug_devbrokers.cli import main

sys.exit(main())
