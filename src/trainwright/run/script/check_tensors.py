"""Tensors and extra state of a job's modules that no checkpoint could hold."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from trainwright.checkpoint.files.tensor_file import is_storable
from trainwright.checkpoint.states.module_state import ModuleState, extra_state_problems
from trainwright.core.errors import Problem
from trainwright.engine.job import Job


def uninitialised(job: Job) -> Iterator[Problem]:
    """Lazy modules that have seen no batch, and so have no weights yet."""
    held: list[tuple[str, object]] = [*job.model.named_parameters(), *job.model.named_buffers()]
    kinds = UninitializedParameter | UninitializedBuffer
    if names := [name for name, one in held if isinstance(one, kinds)]:
        yield Problem(
            "the model has lazy modules without weights",
            path="Job.model",
            found=f"{names[0]} is not initialised",
            fix="call the model once with a batch, before the optimizer is made: model(inputs)",
        )


def unstorable(job: Job) -> Iterator[Problem]:
    """What no file of a checkpoint can hold."""
    for module in modules_of(job):
        named = module.state_dict(keep_vars=True)
        yield from extra_state_problems(module, named)
        kinds = {name: one.dtype for name, one in module.named_parameters()}
        kinds |= {name: one.dtype for name, one in module.named_buffers() if name in named}
        for name, dtype in kinds.items():
            if not is_storable(dtype):
                yield Problem(
                    f"a checkpoint does not keep tensors of {dtype}",
                    path="Job.state",
                    found=f"{name} of {type(module).__name__}",
                    expected="floating, integer or boolean tensors",
                    fix="keep the real view, nn.Parameter(torch.view_as_real(w)), and take "
                    "torch.view_as_complex of it in forward"
                    if dtype.is_complex
                    else "convert it",
                )


def modules_of(job: Job) -> list[nn.Module]:
    """The modules that the parts of the state hold, each once."""
    parts = [part.module for part in job.state.values() if isinstance(part, ModuleState)]
    return list({id(one): one for one in parts}.values())
