"""The messages that contests write and read: batches of 1000 values of one size, over one or more partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_MESSAGES = 1000


@attrs.frozen(slots=False)
class Load:
    """A number of batches, written to the partitions in turn. All values of a batch differ; half of each compresses."""

    size: int
    partitions: int
    batches: int

    @property
    def name(self) -> str:
        """The size and the number of partitions, for names of contests."""
        return f"{self.size} B, {self.partitions} partition{'s' * (self.partitions > 1)}"

    @property
    def messages(self) -> int:
        """The number of messages in all batches."""
        return self.batches * BATCH_MESSAGES

    @cached_property
    def values(self) -> list[bytes]:
        """The values of each batch."""
        return batch_values(self.size)

    @cached_property
    def table(self) -> pa.RecordBatch:
        """The values of each batch as Arrow."""
        import pyarrow as pa  # here: rocksmq_large measures the memory of processes without it

        return pa.record_batch([pa.array(self.values, pa.binary())], names=["value"])


def batch_values(size: int) -> list[bytes]:
    """Return the values of one batch, each `size` bytes long and half of it random."""
    rng = random.Random(size)
    return [rng.randbytes(size // 2) + b"x" * (size - size // 2) for _ in range(BATCH_MESSAGES)]


def loads(*, quick: bool) -> Iterator[Load]:
    """Return all measured loads: 128 B and 1 KiB, one partition and four."""
    for (size, batches), partitions in product(((128, 200), (1024, 60)), (1, 4)):
        yield Load(size, partitions, 4 if quick else batches)
