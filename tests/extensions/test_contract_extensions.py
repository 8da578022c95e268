"""The contract, with both extensions of the house around the memory backend: what wraps changes nothing.

The quick profile in each run, all of it each night.
"""

from __future__ import annotations

import os
import uuid

import pytest

import mqplug
from mqplug.faults import Faults
from mqplug.recording import Recorder
from mqplug.testing import Harness, prove

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def harness():
    """Clients that are recorded, and whose driver rules are enforced; no fault ever strikes."""
    name = uuid.uuid4().hex
    extensions = [Recorder(), Faults()]

    def connect():
        return mqplug.connect("memory", name=name, debug=True, extensions=extensions)

    with connect():
        yield Harness(connect=connect)


test_contract = prove(profile="full" if os.environ.get("MQPLUG_PROFILE") == "full" else "quick")
