"""Random programs in a test: a short run over a backend, with the same programs each day. The night draws others."""

from __future__ import annotations

from typing import Final

from mqplug_testing import Harness, check_programs

SEED: Final = 20260


def check_some_programs(harness: Harness, url: str, seconds: float) -> None:
    """Run random programs for this long. A failure shows the shrunk program, and how to run it over this URL."""
    print(f"random programs with --seed {SEED}")  # noqa: T201  shown if the test fails
    found = check_programs(harness, seconds, SEED)
    print(found)  # noqa: T201
    assert found.failure is None, found.failure.program(url)
    assert found.programs > 0
