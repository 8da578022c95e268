"""Debug mode: an extension that checks the driver rules between the core and any backend's drivers.

A call that breaks a rule raises an error that names the rule. ``connect(url, debug=True)`` puts the extension next to
the backend. In a URL, for ``mqplug test`` too, write ``?debug=true``.
"""

from __future__ import annotations

from mqplug_testing.debug._extension import Debug
from mqplug_testing.debug._rules import Rules

__all__ = ["Debug", "Rules"]
