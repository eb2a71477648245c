"""How long the processes of a training exchange tensors in a step, by arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from trainwright.contract.document import Contract
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.distributed.link import BUCKET_BYTES, Link
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape

if TYPE_CHECKING:
    from trainwright.model.count_network import PartSizes

_NUMBER = 4


def exchange_seconds(contract: Contract, section: ModelSection, shape: Shape, link: Link) -> float:
    """Seconds of the collectives of a step of a resolved contract, as if nothing were computed
    meanwhile. What the parts of a divided model (`tensor`, `pipeline`) exchange is not counted."""
    family, strategy = network_family(section), contract.distributed.strategy
    if strategy == "single" or contract.distributed.model_ranks > 1:
        return 0.0
    trained = family.count_parameters(section, shape) * _NUMBER
    packets = link.all_gather_seconds(0)
    if strategy == "ddp":
        return packets + link.all_reduce_seconds(trained, math.ceil(trained / BUCKET_BYTES))
    return packets + _shard_seconds(contract, family.count_parts(section, shape), trained, link)


def _shard_seconds(contract: Contract, parts: PartSizes, trained: int, link: Link) -> float:
    """The same of shards: weights are gathered within a replica for each pass, or once, and their
    gradients, of `trained` bytes, scattered within it and summed over the replicas."""
    over, calls = contract.distributed, len(parts.blocks) + 1
    inside = replace(link, ranks=over.shards)
    gathers = 2 if over.reshard_after_forward else 1
    weights = (sum(parts.blocks) + parts.rest) * _NUMBER
    a_pass = gathers * inside.all_gather_seconds(weights, calls)
    a_pass += inside.all_gather_seconds(trained, calls)
    if over.replicas > 1:
        between = replace(link, ranks=over.replicas)
        a_pass += between.all_reduce_seconds(trained / over.shards, calls)
    return a_pass * settled(contract.training.gradient_accumulation_steps)
