"""How long the processes of a training exchange tensors in a step, by arithmetic."""

from __future__ import annotations

import math

from trainwright.contract.document import Contract
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.distributed.link import BUCKET_BYTES, Link
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape

_NUMBER = 4


def exchange_seconds(contract: Contract, section: ModelSection, shape: Shape, link: Link) -> float:
    """Seconds of the collectives of a step of a resolved contract, as if nothing were computed
    meanwhile. What the parts of a divided model (`tensor`, `pipeline`) exchange is not counted."""
    family, strategy = network_family(section), contract.distributed.strategy
    if strategy == "single" or contract.distributed.model_ranks > 1:
        return 0.0
    trained = family.count_parameters(section, shape) * _NUMBER
    if strategy == "ddp":
        return link.all_reduce_seconds(trained, math.ceil(trained / BUCKET_BYTES))
    parts = family.count_parts(section, shape)
    inside, outside = sum(parts.blocks) * _NUMBER, parts.rest * _NUMBER
    # Blocks are gathered for each of the two passes; what is outside of them stays gathered.
    a_pass = link.all_gather_seconds(2 * inside, 2 * len(parts.blocks))
    a_pass += link.all_gather_seconds(outside)
    a_pass += link.all_gather_seconds(trained, len(parts.blocks) + 1)
    return a_pass * settled(contract.training.gradient_accumulation_steps)
