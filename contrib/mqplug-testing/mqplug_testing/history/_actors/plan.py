"""The plan of a run: its length, its actors and their rates."""

from __future__ import annotations

from random import Random

import attrs


@attrs.frozen(kw_only=True)
class Plan:
    """The length of a run, the number of its actors, and their rates.

    Each actor draws random numbers from the seed and its own name.

    ``rate`` is the maximum number of records that a producer sends per second. ``limit`` bounds the memory: a run ends
    early after this number of events. ``patience`` is how many seconds to wait at the end without any progress.
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
        """Return the random numbers of one actor."""
        return Random(f"{self.seed}/{name}")

    @property
    def pace(self) -> float:
        """The seconds in which a few faults happen: those of the run, at most a minute."""
        return min(self.seconds, 60.0)

    def session(self, random: Random) -> float:
        """Draw the seconds that an actor works before it leaves and comes back."""
        return random.uniform(0.15, 0.4) * min(max(self.seconds, 1.0), 20.0)

    def smaller(self) -> Plan:
        """Return a plan with half of the actors, for half the time."""
        return attrs.evolve(
            self,
            seconds=max(self.seconds / 2, min(self.seconds, 1.0)),
            producers=max(self.producers // 2, 1),
            members=max(self.members // 2, 1),
            readers=self.readers // 2,
            partitions=max(self.partitions // 2, 1),
        )
