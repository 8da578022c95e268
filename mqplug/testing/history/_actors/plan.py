"""What a run consists of."""

from __future__ import annotations

from random import Random

import attrs


@attrs.frozen(kw_only=True)
class Plan:
    """How long, how many, and how fast. Each actor draws its lots from the seed and its own name.

    ``rate`` is how many records a producer sends in a second, at most. ``limit`` bounds the memory: a run that has so
    many events ends early. ``patience`` is how many seconds an end is waited for in which nothing comes any more.
    """

    seconds: float = 60.0
    seed: str = "0"
    partitions: int = 3
    producers: int = 3
    members: int = 2
    readers: int = 2
    rate: float = 150.0
    limit: int = 400_000
    patience: float = 60.0

    def lots(self, name: str) -> Random:
        """The lots of one actor."""
        return Random(f"{self.seed}/{name}")

    def session(self, lots: Random) -> float:
        """How many seconds somebody stays before it leaves and comes back."""
        return lots.uniform(0.15, 0.4) * min(max(self.seconds, 1.0), 20.0)

    def smaller(self) -> Plan:
        """The same with half of everybody, for half the time."""
        return attrs.evolve(
            self,
            seconds=max(self.seconds / 2, min(self.seconds, 1.0)),
            producers=max(self.producers // 2, 1),
            members=max(self.members // 2, 1),
            readers=self.readers // 2,
            partitions=max(self.partitions // 2, 1),
        )
