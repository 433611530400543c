# SPDX-License-Identifier: MIT
"""Readings of a sensor and what can be said about them. tools/run completes the last line of `spread`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Series:
    """Readings in the order in which they came."""

    name: str
    readings: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        if not math.isfinite(value):
            raise ValueError(f"{self.name}: {value} is not a reading")
        self.readings.append(value)

    def mean(self) -> float:
        """The average of all readings."""
        return sum(self.readings) / len(self.readings)

    def variance(self) -> float:
        """The mean squared distance from the mean."""
        mean = self.mean()
        return sum((x - mean) ** 2 for x in self.readings) / len(self.readings)

    def spread(self) -> float:
        """The standard deviation: the square root of the variance."""
        return 

    def describe(self) -> str:
        return f"{self.name}: {len(self.readings)} readings, mean {self.mean():.2f}, spread {self.spread():.2f}"
