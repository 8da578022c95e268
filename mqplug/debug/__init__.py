"""A watcher between the core and the drivers of any backend: whoever breaks a driver rule gets an error that names it.

``connect(url, debug=True)`` puts it next to the backend. In a URL it is ``?debug=true``, for ``mqplug test`` too.
"""

from __future__ import annotations

from mqplug.debug._extension import Debug
from mqplug.debug._rules import Rules

__all__ = ["Debug", "Rules"]
