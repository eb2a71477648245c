"""The connection between ranks, and how long their collectives take by it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

BUCKET_BYTES = 25 * 2**20
"""Gradients that are summed by one call, as in torch's own data parallelism."""


@final
@dataclass(frozen=True, slots=True)
class Link:
    """What a rank sends to the next one in a ring of `ranks`: seconds before the first byte
    arrives, and bytes a second."""

    ranks: int
    latency_seconds: float
    bytes_per_second: float

    @classmethod
    def fit(cls, ranks: int, small: tuple[int, float], large: tuple[int, float]) -> Link:
        """The link from the bytes and seconds of two all-reduces."""
        share = 2 * (ranks - 1) / ranks
        per_byte = max(large[1] - small[1], 1e-3 * large[1]) / (large[0] - small[0])
        latency = max(0.0, small[1] - per_byte * small[0]) / (2 * (ranks - 1))
        return cls(ranks, latency, share / per_byte)

    def all_reduce_seconds(self, size: float, calls: int = 1) -> float:
        """Seconds in which `size` bytes of each rank are summed on all of them, in some calls: a
        reduce-scatter and an all-gather (Patarasu and Yuan 2009, DOI 10.1016/j.jpdc.2008.09.002).
        """
        return 2 * self.all_gather_seconds(size, calls)

    def all_gather_seconds(self, size: float, calls: int = 1) -> float:
        """Seconds in which all ranks get `size` bytes of which each has a share; as long takes a
        reduce-scatter of `size` bytes."""
        others = self.ranks - 1
        return others * (size / self.ranks / self.bytes_per_second + calls * self.latency_seconds)
