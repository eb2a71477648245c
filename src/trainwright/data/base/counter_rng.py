"""Counter-based random numbers, and a shuffle order without a list: each a function of (seed,
purpose, epoch, position).

There is no generator state to save, and the numbers of a row do not depend on its batch.

The shuffle order is a keyed permutation with random access in constant time. Row i of epoch e is
P(i), with P a permutation of 0..N-1 keyed by (seed, e): a Feistel network over the smallest power
of two that holds N, walked again from values outside (Black and Rogaway 2002, "Ciphers with
arbitrary finite domains", section 3, "cycle walking"). The network alternates between the high
and the low bits, so odd bit widths work too. A network of a few bits reaches only some
permutations, so up to 1,024 rows P sorts the rows by a keyed hash instead, which reaches all
uniformly.

Random numbers follow Salmon et al. 2011 ("Parallel random numbers: as easy as 1, 2, 3"): the row is
the counter, a hash of the rest the key, mixed by two rounds of the SplitMix64 finalizer (Steele et
al. 2014).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats

_ROUNDS = 6
_MOST_SORTED_ROWS = 1024
_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)  # of the finalizer of SplitMix64 (Steele et al. 2014)
_SHIFT = np.uint64(29)

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Increment of SplitMix64: 2 ** 64 over the golden ratio."""

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@final
@dataclass(frozen=True, slots=True)
class Permutation:
    """Order of the `rows` training rows in each epoch.

    Without `shuffle` every epoch is in data order.
    """

    rows: int
    seed: int
    shuffle: bool = True

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows at positions `start` to `stop` (exclusive) of an epoch: int64 [stop - start]."""
        assert 0 <= start <= stop <= self.rows
        return self.of(epoch, np.arange(start, stop, dtype=np.int64))

    def of(self, epoch: int, positions: Positions) -> Positions:
        """Rows at any positions of an epoch, each below `rows`: int64, as many as positions."""
        if not self.shuffle or self.rows < 2:
            return positions
        keys = _keys(self.seed, epoch)
        if self.rows <= _MOST_SORTED_ROWS:
            hashes = _scramble(_scramble(np.arange(self.rows, dtype=np.uint64), keys[0]), keys[1])
            return np.argsort(hashes, kind="stable")[positions].astype(np.int64)
        bits = (self.rows - 1).bit_length()
        permuted = _permute(positions.astype(np.uint64), bits, keys)
        outside = np.flatnonzero(permuted >= np.uint64(self.rows))
        while outside.size:
            walked = _permute(permuted[outside], bits, keys)
            permuted[outside] = walked
            outside = outside[walked >= np.uint64(self.rows)]
        return permuted.astype(np.int64)


@lru_cache(maxsize=1024)
def even_pieces(rows: int, most: int) -> tuple[int, ...]:
    """The fewest pieces of at most `most` rows, as even as possible: batch normalisation fails on a
    remainder of one row."""
    pieces = -(-rows // most)
    least, larger = divmod(rows, pieces)
    return (least + 1,) * larger + (least,) * (pieces - larger)


def _keys(seed: int, epoch: int) -> Words:
    """One 64-bit key per round, hashed from seed and epoch."""
    digest = hashlib.blake2b(f"order/{seed}/{epoch}".encode(), digest_size=8 * _ROUNDS).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def _permute(values: Words, bits: int, keys: Words) -> Words:
    """A keyed permutation of the integers below 2 ** `bits`."""
    low_bits = np.uint64(bits // 2)
    high_bits = np.uint64(bits - bits // 2)
    low_mask = (np.uint64(1) << low_bits) - np.uint64(1)
    high_mask = (np.uint64(1) << high_bits) - np.uint64(1)
    high = values >> low_bits
    low = values & low_mask
    for number, key in enumerate(keys):
        if number % 2:
            high ^= _scramble(low, key) & high_mask
        else:
            low ^= _scramble(high, key) & low_mask
    return (high << low_bits) | low


def _scramble(values: Words, key: np.uint64) -> Words:
    """64 well-mixed bits of each value under a key."""
    mixed = (values + np.uint64(1)) * (key | np.uint64(1))
    mixed ^= mixed >> _SHIFT
    mixed += key
    mixed *= _MULTIPLIER
    mixed ^= mixed >> np.uint64(32)
    return mixed


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
