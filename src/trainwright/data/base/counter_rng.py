"""Counter-based random numbers: each is a function of (seed, purpose, epoch, row), so there is no
generator state to save, and a row's numbers do not depend on its batch.

After Salmon et al. 2011 ("Parallel random numbers: as easy as 1, 2, 3"): the row is the counter, a
hash of the rest the key, mixed by two rounds of the SplitMix64 finalizer (Steele et al. 2014).
"""

from __future__ import annotations

import hashlib

import numpy as np

from trainwright.data.base.permutation import Positions, Words
from trainwright.data.base.table import Floats

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Increment of SplitMix64: 2 ** 64 over the golden ratio."""

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def uniform(seed: int, purpose: str, epoch: int, rows: Positions) -> Floats:
    """Uniform numbers in [0, 1), float64 [N], from 53 random bits."""
    shifted: Floats = (_bits(seed, purpose, epoch, rows) >> np.uint64(11)).astype(np.float64)
    return shifted * 2.0**-53


def integers(below: int, seed: int, purpose: str, epoch: int, rows: Positions) -> Positions:
    """Uniform integers in [0, below), int64 [N]."""
    assert 0 < below < 2**32
    high = _bits(seed, purpose, epoch, rows) >> np.uint64(32)
    # Multiply-shift (Lemire 2019): the bias is below 1 in 2**32 / below.
    return ((high * np.uint64(below)) >> np.uint64(32)).astype(np.int64)


def _bits(seed: int, purpose: str, epoch: int, rows: Positions) -> Words:
    text = f"noise/{seed}/{purpose}/{epoch}"
    keys = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), "<u8")
    values = rows.astype(np.uint64) * GOLDEN + keys[0]
    return mix(mix(values) ^ keys[1])


def mix(values: Words) -> Words:
    """SplitMix64 finalizer, a bijection on 64-bit words."""
    mixed = (values ^ (values >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
