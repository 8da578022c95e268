"""What is written and read: so many batches of a thousand messages of one size, over so many partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 1000


@attrs.frozen(slots=False)
class Load:
    """Batches go to the partitions in turn. Values differ, and half of each can be compressed."""

    size: int
    partitions: int
    batches: int

    @property
    def name(self) -> str:
        """Size and partitions, in words."""
        return f"{self.size} B, {self.partitions} partition{'s' * (self.partitions > 1)}"

    @property
    def messages(self) -> int:
        """How many there are in all."""
        return self.batches * MANY

    @cached_property
    def values(self) -> list[bytes]:
        """The thousand values of each batch."""
        return some_values(self.size)

    @cached_property
    def table(self) -> pa.RecordBatch:
        """The same as Arrow."""
        import pyarrow as pa  # here, because the large benchmark measures the memory of processes without it

        return pa.record_batch([pa.array(self.values, pa.binary())], names=["value"])


def some_values(size: int) -> list[bytes]:
    """A thousand values of this size, half of each random."""
    rng = random.Random(size)
    return [rng.randbytes(size // 2) + b"x" * (size - size // 2) for _ in range(MANY)]


def loads(*, quick: bool) -> Iterator[Load]:
    """All that are measured: 128 bytes and a kilobyte, one partition and four."""
    for (size, batches), partitions in product(((128, 200), (1024, 60)), (1, 4)):
        yield Load(size, partitions, 4 if quick else batches)
