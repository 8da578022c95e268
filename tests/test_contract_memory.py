"""The contract, over the memory backend, and over one with gaps between its ids."""

from __future__ import annotations

import uuid

import pytest
from sparse import Sparse

import mqplug
from mqplug.testing import Harness, contract


@pytest.fixture(scope="module", params=["memory", "sparse"])
def harness(request):
    """Clients that share one named store, which lives as long as the process."""
    mqplug.register("sparse", Sparse("sparse"))
    store = uuid.uuid4().hex
    return Harness(connect=lambda: mqplug.connect(request.param, name=store), restart=lambda: None)


test_contract = contract()
