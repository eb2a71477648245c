"""`training.memory`: what is done so that a network's training needs less memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.section import Section, tagged_by

KeptOps = Literal["matmul", "attention", "convolution"]

OFFLOADED_PART_BYTES = 2**26
"""Bytes of parameters that are updated together where the optimizer's state is offloaded; one that
is larger is updated alone."""


class EveryNth(Section):
    """Every n-th block is computed again, the others keep their activations."""

    kind: Literal["every"]

    n: Annotated[int, Field(ge=2)] = 2
    """Blocks from one that is computed again to the next. 2 saves about half of what `full`
    saves."""


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
    """Operations whose outputs are kept. Attention with dropout is always computed again, so that
    its random numbers are drawn anew in their order."""


ActivationCheckpointing = (
    Literal["off", "full"]
    | Annotated[
        Annotated[EveryNth, Tag("every")] | Annotated[ByOp, Tag("by_op")],
        tagged_by("kind", "every"),
    ]
)


class Memory(Section):
    """What is done so that the training needs less memory. None of it changes an update."""

    activation_checkpointing: ActivationCheckpointing = "off"
    """Which activations are not kept for the backward pass but computed again in it (Chen et al.
    2016, arXiv:1604.06174): `full` keeps the input of each block alone, for about a third more
    computing; or a section with its `kind`. Gradients are the same bits. The default is `off`,
    because computing costs time and memory is mostly there."""

    update: Literal["after_backward", "in_backward"] = "after_backward"
    """When weights are updated. `in_backward`: each parameter as soon as its gradient is there, so
    that no two gradients are kept at once. For sgd, adam and adamw, with one micro-batch a step,
    without clipping and without fp16; it needs `guard.non_finite: rollback`, because a gradient
    that is not finite is found when a part of the update is made. The update has the same bits.
    The default is `after_backward`, which can still leave a bad update out as a whole."""

    margin: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the device's memory that is left free where the plan chooses `batch_size` and
    `gradient_accumulation_steps`: workspaces of kernels, the allocator's waste, a GPU's context and
    other processes are not in its estimate."""

    offload_optimizer: bool = False
    """Moments of the optimizer live in the host's memory, and come to the device for their update a
    part at a time. On a GPU only, for adam, adamw, and sgd with momentum. Each step copies them
    there and back: 16 bytes a parameter for Adam, over the link between host and GPU. The update
    has the same bits. The default is `false`, because a small step is faster than the copies."""

    offload_activations: bool = False
    """Activations of 1 MiB and more wait in the host's memory for the backward pass. On a GPU only;
    each is copied there and back."""
