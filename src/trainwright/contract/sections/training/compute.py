"""`training.compute`: kernels and memory layout of a step."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.sections.section import Auto, Section


class Compute(Section):
    """Kernels and memory layout of a step. They affect only the last digits of a result, so `auto`
    may choose by a measurement at the start of a run; a resumed run keeps the original choice."""

    matrix_products: Auto | Literal["exact", "onednn"] = "auto"
    """Kernels of fp32 matrix products on a CPU. `onednn` allows oneDNN's, which are often faster
    and on some processors round to bf16; `exact` allows none that round. `auto`: `onednn` where its
    error on matrices like those of the model is that of fp32 (at most 1e-5) and a step is at least
    1.1 times as fast with it."""

    memory_format: Auto | Literal["contiguous", "channels_last"] = "auto"
    """How images and the weights of convolutions lie in memory: channel after channel, or all
    channels of a place together. `auto`: `channels_last` for models with convolutions, but on a CPU
    `contiguous` where that is measured to be 1.05 times as fast; `contiguous` for all others."""

    compile: Auto | Literal["off", "on"] = "auto"
    """Whether forward and backward pass are compiled by torch.compile (Ansel et al. 2024, "PyTorch
    2", doi:10.1145/3620665.3640366), which takes from seconds to minutes before the first step.
    `auto`: measured where the run will take at least 10 minutes, and kept if it gains at least
    twice what it takes."""
