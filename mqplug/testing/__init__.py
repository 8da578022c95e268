"""The contract kit: the promises of a backend, as cases that run over any backend.

In a plugin's ``tests/test_contract.py``::

    import mqplug
    import pytest
    from mqplug.testing import Harness, prove

    @pytest.fixture(scope="session")
    def harness():
        return Harness(connect=lambda: mqplug.connect("yours://localhost"))

    test_contract = prove()

Each case is one test, named after the rule that it checks. ``mqplug test yours://localhost`` does the same without any
code. Needs ``pip install mqplug[testing]``.
"""

from __future__ import annotations

import pytest

# Before these modules are imported, so that failed comparisons show both sides, also from an installed wheel.
pytest.register_assert_rewrite("mqplug.testing._case_tools.bench", "mqplug.testing.contract")

from mqplug.testing._case_tools.bench import Bench, Trimmed  # noqa: E402
from mqplug.testing._case_tools.registry import Case  # noqa: E402
from mqplug.testing._case_tools.run_settings import Profile  # noqa: E402
from mqplug.testing._collection.prove import prove  # noqa: E402
from mqplug.testing._harness.harness import DISTURBING_HOOKS, Harness  # noqa: E402
from mqplug.testing._harness.server_process import ServerHooks, ServerProcess, free_port  # noqa: E402
from mqplug.testing._harness.tcp_proxy import NetworkHooks, Proxy  # noqa: E402
from mqplug.testing._harness.waiting import Waiting  # noqa: E402
from mqplug.testing._running.run_case import run  # noqa: E402
from mqplug.testing.contract import CASES  # noqa: E402
from mqplug.testing.history import History, Verdict, check_history  # noqa: E402

__all__ = [
    "CASES", "DISTURBING_HOOKS", "Bench", "Case", "Harness", "History", "NetworkHooks", "Profile", "Proxy",
    "ServerHooks", "ServerProcess", "Trimmed", "Verdict", "Waiting", "check_history", "free_port", "prove", "run",
]  # fmt: skip
