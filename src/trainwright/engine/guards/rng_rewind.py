"""Rewinding random number generators to the start of a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch


class _Generator(NamedTuple):
    """Reads, writes and compares the state of a generator."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    same: Callable[[Any, Any], bool]


@final
class StepGenerators:
    """Generators used by a step, restorable to their state before it.

    Which ones the step uses is detected in the first step; the others cost nothing afterwards.
    Covers Python, NumPy and torch: the CPU and each CUDA device.
    """

    def __init__(self) -> None:
        self._drawn = _generators()
        self._before: list[Any] = []
        self.settled = False

    def keep(self) -> None:
        """Save their states before a step."""
        self._before = [generator.read() for generator in self._drawn]

    def put_back(self) -> None:
        """Restore their states from before the step."""
        for generator, before in zip(self._drawn, self._before, strict=True):
            generator.write(before)

    def settle(self) -> None:
        """After the first step, keep only the generators it used."""
        pairs = zip(self._drawn, self._before, strict=True)
        self._drawn = [one for one, before in pairs if not one.same(one.read(), before)]
        self.settled = True


def _generators() -> list[_Generator]:
    generators = [
        _Generator(torch.get_rng_state, torch.set_rng_state, torch.equal),
        _Generator(random.getstate, random.setstate, lambda one, other: one == other),
        _Generator(np.random.get_state, np.random.set_state, _same_numpy),
    ]
    if torch.cuda.is_available():
        generators.append(
            _Generator(
                torch.cuda.get_rng_state_all,
                torch.cuda.set_rng_state_all,
                lambda one, other: all(map(torch.equal, one, other)),
            )
        )
    return generators


def _same_numpy(one: Any, other: Any) -> bool:
    return one[0] == other[0] and np.array_equal(one[1], other[1]) and one[2:] == other[2:]
