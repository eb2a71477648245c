"""`training.memory` and `training.compute`: what saves memory, kernels and memory format."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import Auto, Section, tagged_by

KeptOps = Literal["matmul", "attention", "convolution"]

OFFLOADED_PART_BYTES = 2**26
"""Bytes of parameters updated together if the optimizer's state is offloaded; a larger one is
updated alone."""


class EveryNth(Section):
    """Every n-th block is recomputed, the others keep their activations."""

    kind: Literal["every"]

    n: Annotated[int, Field(ge=2)] = 2
    """Interval of recomputed blocks. 2 saves about half of what `full` saves."""


class ByOp(Section):
    """In every block the costly operations keep their outputs, and the cheap ones between them are
    computed again (selective recomputation, Korthikanti et al. 2022, arXiv:2205.05198, section
    5)."""

    kind: Literal["by_op"]

    keep: Annotated[tuple[KeptOps, ...], Field(min_length=1)] = (
        "matmul",
        "attention",
        "convolution",
    )
    """Operations whose outputs are kept. Attention with dropout is always recomputed, so that its
    random numbers are redrawn in order."""


ActivationCheckpointing = (
    Literal["off", "full"]
    | Annotated[
        Annotated[EveryNth, Tag("every")] | Annotated[ByOp, Tag("by_op")],
        tagged_by("kind", "every"),
    ]
)


class Memory(Section):
    """Reducing the memory that training needs. None of it changes an update but
    `head_loss`, in its last bits."""

    activation_checkpointing: ActivationCheckpointing = "off"
    """Activation checkpointing: activations that are recomputed in the backward pass instead of
    kept (Chen et al. 2016, arXiv:1604.06174). `full` keeps only the input of each block, for about
    a third more compute; or a section with its `kind`. Gradients are bit-identical. The default is
    `off`, because it costs time and memory usually suffices."""

    update: Literal["after_backward", "in_backward"] = "after_backward"
    """When weights are updated. `in_backward`: each parameter as soon as its gradient is there, so
    that no two gradients are kept at once. For sgd, adam and adamw, with one micro-batch a step,
    without clipping and without fp16; it needs `guard.non_finite: rollback`, because a gradient
    that is not finite is found when a part of the update is made. The update has the same bits.
    The default is `after_backward`, which can still leave a bad update out as a whole."""

    head_loss: Literal["separate", "fused"] = "separate"
    """How the loss of a decoder is computed. `fused`: from the features before the head, piece by
    piece and together with its gradient, so that the logits of a micro-batch are never in memory as
    a whole (Hsu et al. 2024, arXiv:2410.10989, section 3.2): for large vocabularies. For `gpt` with
    cross-entropy, neither compiled nor in fp16. The update is the same up to the order in which
    numbers are added."""

    margin: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the device's memory that is left free where the plan chooses `batch_size` and
    `gradient_accumulation_steps`: workspaces of kernels, the allocator's waste, a GPU's context and
    other processes are not in its estimate."""

    offload_optimizer: bool = False
    """Optimizer offloading: its moments live in host memory, and come to the device for their
    update in parts. On a GPU only, for adam, adamw, and sgd with momentum. Each step copies them
    both ways: 16 bytes per parameter for Adam, over the link between host and GPU. The update is
    bit-identical. The default is `false`, because a small step is faster than the copies."""

    offload_activations: bool = False
    """Activation offloading: activations of 1 MiB and more wait in host memory for the backward
    pass. On a GPU only; each is copied both ways."""


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
