"""Exact resume by induction: each step of an unbroken run follows from the checkpoint before it, in
objects that are built anew. So a cut between any two steps changes no bit."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch

from comparing import differences
from trainwright.checkpoint.store import Loaded
from trainwright.testing.fakes import MemoryCheckpoints

NOT_COMPARED = ("clock",)


class FitTo(Protocol):
    """Builds a run anew, goes on from what is kept, saves every step, and ends in order after a
    step; what was seen of each step."""

    def __call__(self, store: MemoryCheckpoints, step: float) -> Mapping[int, object]: ...


def steps_that_differ(fit_to: FitTo) -> dict[int, list[str]]:
    """The steps that do not follow from the checkpoint before them, and in what they differ."""
    whole = MemoryCheckpoints()
    seen = fit_to(whole, math.inf)
    kept = {one.step: contents(one) for one in whole.kept}
    assert sorted(kept) == list(range(max(seen) + 1)), "not every step was saved"
    found = {}
    for before, step in pairwise(whole.kept):
        store = MemoryCheckpoints()
        store.kept.append(before)
        draw_other_numbers(step.step)
        again = fit_to(store, step.step)
        found[step.step] = differences(contents(store.kept[-1]), kept[step.step])
        if dict(again) != {made: seen[made] for made in range(before.step + 1, step.step + 1)}:
            found[step.step].append("what was seen")
    return {step: names for step, names in found.items() if names}


def contents(one: Loaded) -> dict[str, object]:
    """Everything in a checkpoint by name, as bits."""
    found: dict[str, object] = {"step": one.step, "score": repr(one.score)}
    for part, snapshot in one.parts.items():
        if part in NOT_COMPARED:
            continue
        found[f"{part} values"] = snapshot.packed_values
        for name, tensor in snapshot.tensors.items():
            bits = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            found[f"{part} {name}"] = (tensor.dtype, tensor.shape, bits)
    return found


def draw_other_numbers(process: int) -> None:
    """As another process has them: what is equal afterwards was restored."""
    torch.manual_seed(1000 + process)
    random.seed(1000 + process)
    np.random.seed(1000 + process)
