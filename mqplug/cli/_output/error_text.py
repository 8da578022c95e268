"""The text of an error on the command line."""

from __future__ import annotations

import mqplug

DEBUG_VARIABLE = "MQPLUG_DEBUG"


def error_line(error: Exception) -> str:
    """Return an error in one line, with its fix."""
    if isinstance(error, mqplug.Error):
        return " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "rich":
        return "the command line needs rich. Run pip install 'mqplug[cli]'"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text}. Set {DEBUG_VARIABLE}=1 for the traceback"
