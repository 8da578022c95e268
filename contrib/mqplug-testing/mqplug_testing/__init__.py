"""The contract kit: the promises of a backend, as cases that run over any backend.

In a plugin's ``tests/test_contract.py``::

    import mqplug
    import pytest
    from mqplug_testing import Harness, prove

    @pytest.fixture(scope="session")
    def harness():
        return Harness(connect=lambda: mqplug.connect("yours://localhost"))

    test_contract = prove()

Each case is one test, named after the rule that it checks. ``mqplug test yours://localhost`` does the same without any
code. The packages ``debug``, ``faults`` and ``recording`` are extensions.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mqplug_testing._case_tools.bench import Bench, Trimmed
    from mqplug_testing._case_tools.registry import Case
    from mqplug_testing._case_tools.run_settings import Profile
    from mqplug_testing._collection import check_options, prove
    from mqplug_testing._harness.harness import DISTURBING_HOOKS, Harness, Waiting, harness_for
    from mqplug_testing._harness.server_process import ServerHooks, ServerProcess, free_port
    from mqplug_testing._harness.tcp_proxy import NetworkHooks, Proxy
    from mqplug_testing._running import run
    from mqplug_testing.contract import CASES
    from mqplug_testing.history import History, Verdict, check_history
    from mqplug_testing.programs import Findings, UnreadableCorpus, check_programs

# Before these modules are imported, so that failed comparisons show both sides, also from an installed wheel.
if (pytest := sys.modules.get("pytest")) is not None:
    pytest.register_assert_rewrite("mqplug_testing._case_tools.bench", "mqplug_testing.contract")

__all__ = [
    "CASES", "DISTURBING_HOOKS", "Bench", "Case", "Findings", "Harness", "History", "NetworkHooks", "Profile",
    "Proxy", "ServerHooks", "ServerProcess", "Trimmed", "UnreadableCorpus", "Verdict", "Waiting", "check_history",
    "check_options", "check_programs", "free_port", "harness_for", "prove", "run",
]  # fmt: skip

_HOMES: Final = {
    "_case_tools.bench": "Bench Trimmed",
    "_case_tools.registry": "Case",
    "_case_tools.run_settings": "Profile",
    "_collection": "check_options prove",
    "_harness.harness": "DISTURBING_HOOKS Harness Waiting harness_for",
    "_harness.server_process": "ServerHooks ServerProcess free_port",
    "_harness.tcp_proxy": "NetworkHooks Proxy",
    "_running": "run",
    "contract": "CASES",
    "history": "History Verdict check_history",
    "programs": "Findings UnreadableCorpus check_programs",
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name from its module at its first use: an extension needs nothing of the kit."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mqplug_testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"mqplug_testing.{_HOME_OF[name]}"), name)
    return found
