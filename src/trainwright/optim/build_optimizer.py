"""Build the optimizer of a contract, or several as one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, assert_never, final

import torch
from torch import Tensor, nn

from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training import optimizer as contract
from trainwright.optim.dependencies import need_optimizer
from trainwright.optim.dynamo_workaround import leave_compiler_out
from trainwright.optim.eval_weights import ScheduleFreeWeights, TrainedWeights, Weights
from trainwright.optim.fused_adam import stepping_of
from trainwright.optim.layerwise_lr import rate_factors
from trainwright.optim.muon import ConvMuon, hidden_kernels, hidden_matrices
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.parameter_groups import (
    NO_FACTORS,
    Factors,
    Group,
    group_parameters,
    split_groups,
)

_Options = list[dict[str, Any]]


@final
class MultiOptimizer:
    """Several optimizers over disjoint parameters, stepped together.

    Their groups are concatenated and they share one mapping of states, so that schedules and
    checkpoints see a single optimizer.
    """

    def __init__(self, *members: torch.optim.Optimizer | ConvMuon) -> None:
        self._steps = [stepping_of(member) for member in members]
        self.param_groups: list[dict[str, Any]] = [
            group for member in members for group in member.param_groups
        ]
        parameters = [p for group in self.param_groups for p in group["params"]]
        assert len(set(parameters)) == len(parameters), "each parameter has one optimizer"
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        for member in members:
            self.state.update(member.state)
            member.state = self.state

    def step(self) -> None:
        """Step each of them."""
        for step in self._steps:
            step()


def build_optimizer(
    section: contract.AnyOptimizer,
    model: nn.Module,
    rows_per_step: int,
    undecayed: Collection[nn.Parameter] = frozenset(),
    width_factors: Factors = NO_FACTORS,
) -> Optimizer:
    """Optimizer over the trainable parameters of a model, fused where available: the fastest on CPU
    and GPU alike, and the one that can drop a non-finite update on the device.

    `rows_per_step` is the effective batch size, for the `batch_scaling` rule; `undecayed` are
    parameters that are not decayed beside those that never are, `width_factors` those on the rate
    that follow from the width of the model.

    Raises:
        MissingExtra: the library of the optimizer is not installed.
        ContractMistake: a module that the model does not have.
    """
    need_optimizer(section)
    leave_compiler_out()
    scale = batch_scale(section.batch_scaling, rows_per_step / section.base_batch_size)
    factors = rate_factors(model, section.layer_decay, section.learning_rate_factors)
    groups = group_parameters(model, factors, undecayed, width_factors)
    rate = settled(section.learning_rate) * scale
    if isinstance(section, contract.Muon):
        return _muon(section, groups, model, scale)
    return _one(section, _options(groups, section.weight_decay, rate))


def build_weights(section: contract.AnyOptimizer, optimizer: Optimizer) -> Weights:
    """Weights to evaluate under this optimizer."""
    if not isinstance(section, contract.ScheduleFreeAdamW):
        return TrainedWeights()
    from pytorch_optimizer.optimizer.schedulefree import ScheduleFreeAdamW

    assert isinstance(optimizer, ScheduleFreeAdamW), "made by build_optimizer from this section"
    return ScheduleFreeWeights(optimizer)


def batch_scale(rule: Literal["none", "linear", "sqrt"], ratio: float) -> float:
    """Factor on the peak learning rate for steps of `ratio` times the rows for which it was tuned
    (Goyal et al. 2017, arXiv:1706.02677; Malladi et al. 2022, arXiv:2205.10287)."""
    match rule:
        case "none":
            return 1.0
        case "linear":
            return ratio
        case "sqrt":
            return math.sqrt(ratio)
        case _:
            assert_never(rule)


def _options(groups: Sequence[Group], weight_decay: float, rate: float) -> _Options:
    return [group.options(weight_decay, rate) for group in groups]


def _one(
    section: contract.Sgd
    | contract.Adam
    | contract.AdamW
    | contract.Adafactor
    | contract.Lamb
    | contract.Lion
    | contract.ScheduleFreeAdamW
    | contract.AdamW8bit,
    groups: _Options,
) -> torch.optim.Optimizer:
    match section:
        case contract.Sgd():
            return _sgd(section, groups)
        case contract.Adam(betas=betas, eps=eps):
            return torch.optim.Adam(groups, betas=betas, eps=eps, fused=True)
        case contract.AdamW(betas=betas, eps=eps):
            return torch.optim.AdamW(groups, betas=betas, eps=eps, fused=True)
        case contract.Adafactor():
            return torch.optim.Adafactor(
                groups, beta2_decay=section.beta2_decay, d=section.clip, foreach=False
            )
        case contract.Lamb() | contract.Lion() | contract.ScheduleFreeAdamW():
            return _of_library(section, groups)
        case contract.AdamW8bit(betas=betas, eps=eps):
            from bitsandbytes.optim.adamw import AdamW8bit

            return AdamW8bit(groups, betas=betas, eps=eps)  # type: ignore[no-untyped-call]
        case _:
            assert_never(section)


def _sgd(section: contract.Sgd, groups: _Options) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(
        groups,
        momentum=section.momentum,
        nesterov=section.nesterov,
        fused=True,
    )
    if section.momentum:
        # The fused kernel can allocate its buffers only for all parameters in one step, and leaves
        # them uninitialised if that step is dropped. Starting from zeros gives the same first step.
        for group in groups:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def _of_library(
    section: contract.Lamb | contract.Lion | contract.ScheduleFreeAdamW, groups: _Options
) -> torch.optim.Optimizer:
    # Imported here: it takes half a second, which only its users should pay.
    from pytorch_optimizer.optimizer.lamb import Lamb
    from pytorch_optimizer.optimizer.lion import Lion
    from pytorch_optimizer.optimizer.schedulefree import ScheduleFreeAdamW

    # The foreach implementation is the slowest on a CPU, and the fastest without a fused kernel on
    # a GPU.
    foreach = all(p.is_cuda for group in groups for p in group["params"])
    match section:
        case contract.Lamb(betas=betas, eps=eps):
            # Decay belongs into the update whose norm is set; without `adam_debias` the library
            # divides the rate by 1 - b1^t, at first ten times the requested one.
            return Lamb(
                groups,
                betas=betas,
                eps=eps,
                weight_decouple=False,
                adam_debias=True,
                foreach=foreach,
            )
        case contract.Lion(betas=betas):
            return Lion(groups, betas=betas, foreach=foreach)
        case contract.ScheduleFreeAdamW(betas=betas, eps=eps):
            return ScheduleFreeAdamW(groups, betas=betas, eps=eps, foreach=foreach)
        case _:
            assert_never(section)


def _muon(
    section: contract.Muon, groups: Sequence[Group], model: nn.Module, scale: float
) -> Optimizer:
    hidden, rest = split_groups(groups, hidden_matrices(model))
    rate = settled(section.learning_rate) * scale
    rate_of_rest = settled(section.adamw_learning_rate) * scale
    muon: dict[str, Any] = {
        "momentum": section.momentum,
        "nesterov": section.nesterov,
        "adjust_lr_fn": section.scale,
    }
    members: list[torch.optim.Optimizer | ConvMuon] = []
    if hidden:
        members.append(torch.optim.Muon(_options(hidden, section.weight_decay, rate), **muon))
    if section.convolutions == "muon":
        kernels, rest = split_groups(rest, hidden_kernels(model))
        if kernels:
            members.append(ConvMuon(_options(kernels, section.weight_decay, rate), **muon))
    if rest:
        members.append(
            torch.optim.AdamW(
                _options(rest, section.weight_decay, rate_of_rest),
                betas=section.betas,
                eps=section.eps,
                fused=True,
            )
        )
    return MultiOptimizer(*members)
