"""The contract kit: what a backend promises, as cases that run over any backend.

In a plugin's ``tests/test_contract.py``::

    import mqplug
    import pytest
    from mqplug.testing import Harness, contract

    @pytest.fixture(scope="session")
    def harness():
        return Harness(connect=lambda: mqplug.connect("yours://localhost"))

    test_contract = contract()

Each case is one test, named after the rule that it checks. Needs ``pip install mqplug[testing]``.
"""

from __future__ import annotations

import pytest

# Before the modules are imported: failed comparisons then show both sides, also from an installed wheel.
pytest.register_assert_rewrite("mqplug.testing._bench")

from mqplug.testing._bench import Bench, Trimmed  # noqa: E402
from mqplug.testing._cases import CASES  # noqa: E402
from mqplug.testing._contract import contract, run  # noqa: E402
from mqplug.testing._harness import Harness  # noqa: E402
from mqplug.testing._registry import Case  # noqa: E402

__all__ = ["CASES", "Bench", "Case", "Harness", "Trimmed", "contract", "run"]
