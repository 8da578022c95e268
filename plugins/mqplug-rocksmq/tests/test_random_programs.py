"""Random programs over a store, judged by the model of the rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_by_day import check_some_programs

from mqplug_testing import harness_for


@pytest.mark.timeout(120)
def test_random_programs_break_no_rule(tmp_path: Path) -> None:
    """Ten seconds of random programs break no rule."""
    url = f"rocksmq://{tmp_path}/store"
    with harness_for(url) as harness:
        check_some_programs(harness, url, 10)
