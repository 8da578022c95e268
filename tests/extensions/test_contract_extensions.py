"""The contract over the memory backend with both of our extensions around it, which must change nothing.

The brief contract by day, all of it at night.
"""

from __future__ import annotations

import uuid

import pytest
from brief_contract import BRIEF

import mqplug
from mqplug_testing import Harness, prove
from mqplug_testing.faults import Faults
from mqplug_testing.recording import Recorder

BY_DAY = BRIEF


@pytest.fixture(scope="module")
def harness():
    """Clients that are recorded, and whose driver rules are enforced; no fault is injected."""
    name = uuid.uuid4().hex
    extensions = [Recorder(), Faults()]

    def connect():
        return mqplug.connect("memory", name=name, debug=True, extensions=extensions)

    with connect():
        yield Harness(connect=connect)


test_contract = prove(profile="quick")
