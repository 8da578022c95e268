"""Random programs over the run's Kafka, judged by the model of the rules."""

from __future__ import annotations

import pytest
from programs_by_day import check_some_programs

from mqplug_testing import harness_for


@pytest.mark.night
@pytest.mark.timeout(150)
def test_random_programs_break_no_rule(shared_kafka):
    """Half a minute of random programs break no rule."""
    with harness_for(shared_kafka.url) as harness:
        check_some_programs(harness, shared_kafka.url, 30)
