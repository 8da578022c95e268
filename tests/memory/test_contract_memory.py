"""KIT-01: the contract in its quick profile, over the memory backend, with the driver rules enforced.

At night the part ``core`` runs it in full, and in each personality of memory.
"""

from __future__ import annotations

import attrs
import pytest

from mqplug_testing import harness_for, prove
from mqplug_testing.debug import Rules

pytestmark = pytest.mark.python


@pytest.fixture(
    scope="module",
    params=["full", *(pytest.param(name, marks=pytest.mark.night) for name in ("kafka", "pulsar"))],
)
def harness(request):
    """Clients whose drivers record each driver rule that the core breaks, even if the error goes unseen."""
    seen: list[Rules] = []

    with harness_for(f"memory://?debug=true&like={request.param}") as found:

        def connect():
            client = found.connect()
            seen.append(client.unwrap(Rules))
            return client

        yield attrs.evolve(found, connect=connect)
    assert [broken for rules in seen for broken in rules.broken] == []


test_contract = prove(profile="quick")
