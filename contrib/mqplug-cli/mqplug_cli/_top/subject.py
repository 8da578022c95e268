"""What top looks at: a client, and how the command line named it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

import mqplug


@attrs.frozen
class Subject:
    """A client, its name for people (without secrets), and the words that name it on a command line."""

    client: mqplug.Client
    shown: str
    words: Sequence[str] = ()
    timeout: float = 30
    read_only: bool = False
