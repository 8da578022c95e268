"""LIF: what is declared can be done, and what is not declared is refused by name."""

from __future__ import annotations

from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.operation_calls import OPERATION_CALLS, refuses, works
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("LIF-13", timeout=300)
def test_declared(bench: Bench) -> None:
    """An operation that is declared can be called; one that is not is ``Unsupported``, which names the capability."""
    able = bench.client.capabilities
    for capability in OPERATION_CALLS:
        (works if getattr(able, capability) else refuses)(bench, capability)
