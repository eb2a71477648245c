"""Parameter groups: weight decay by the parameter's dimensions and module type, learning-rate
factor by its path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

from torch import nn

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)

_NEVER_DECAYED = (
    *_EMBEDDINGS,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.modules.batchnorm._NormBase,  # the common base of all batch and instance norms
)

Factors = Mapping[nn.Parameter, float]
"""Factor on the learning rate of a parameter; 1 if missing."""

NO_FACTORS: Factors = MappingProxyType({})


@final
@dataclass(frozen=True, slots=True)
class Group:
    """Parameters with the same hyperparameters."""

    parameters: tuple[nn.Parameter, ...]
    is_decayed: bool
    factor: float
    width_factor: float = 1.0
    """Factor on the learning rate that leaves the decay of a step unchanged."""

    def options(self, weight_decay: float, learning_rate: float) -> dict[str, Any]:
        """The group in the format of torch's optimizers."""
        return {
            "params": list(self.parameters),
            "weight_decay": weight_decay / self.width_factor if self.is_decayed else 0.0,
            "lr": learning_rate * self.factor * self.width_factor,
        }


def group_parameters(
    model: nn.Module,
    factors: Factors = NO_FACTORS,
    undecayed: Collection[nn.Parameter] = frozenset(),
    width_factors: Factors = NO_FACTORS,
) -> list[Group]:
    """Partition the trainable parameters into groups; a parameter shared by modules appears once.
    Parameters of fewer than two dimensions, norms, embeddings, biases and those of `undecayed` are
    never decayed.

    The group whose learning rate is nearest to the peak comes first: its rate is the one reported
    as a signal.
    """
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
    for parameter, may_decay in _each_once(model):
        is_decayed = may_decay and parameter not in undecayed
        key = (is_decayed, factors.get(parameter, 1.0), width_factors.get(parameter, 1.0))
        groups.setdefault(key, []).append(parameter)
    keys = sorted(groups, key=_from_the_peak)
    return [Group(tuple(groups[key]), *key) for key in keys]


def _from_the_peak(key: tuple[bool, float, float]) -> tuple[float, bool, float]:
    is_decayed, factor, width_factor = key
    rate = factor * width_factor
    return max(rate, 1 / rate), not is_decayed, rate


def split_groups(
    groups: Collection[Group], chosen: Collection[nn.Parameter]
) -> tuple[list[Group], list[Group]]:
    """Groups of the `chosen` parameters, and those of the rest."""
    first, rest = [], []
    for group in groups:
        inside = tuple(p for p in group.parameters if p in chosen)
        outside = tuple(p for p in group.parameters if p not in chosen)
        if inside:
            first.append(Group(inside, group.is_decayed, group.factor, group.width_factor))
        if outside:
            rest.append(Group(outside, group.is_decayed, group.factor, group.width_factor))
    return first, rest


def _each_once(model: nn.Module) -> Iterator[tuple[nn.Parameter, bool]]:
    seen: set[nn.Parameter] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                exempt = name == "bias" or isinstance(module, _NEVER_DECAYED)
                yield parameter, parameter.ndim > 1 and not exempt
