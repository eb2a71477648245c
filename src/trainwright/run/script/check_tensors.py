"""Tensors of a script's job that no checkpoint holds, searched from its objects. Needs torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TypeVar

from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim import Optimizer

from trainwright.checkpoint.files.tensor_file import is_storable
from trainwright.checkpoint.states.module_state import ModuleState, extra_state_problems
from trainwright.core.errors import Problem
from trainwright.engine.job import Job

Found = TypeVar("Found")
_MOST_OBJECTS = 2000
_OPAQUE = (nn.Module, Tensor, Optimizer, ModuleType, str, bytes, int, float, type(None), type)
_LIBRARIES = ("torch", "trainwright", "numpy")


def find_within(root: object, kind: type[Found] | tuple[type[Found], ...]) -> list[Found]:
    """Every object of `kind` reachable from `root` through attributes, containers or closures, or
    named by its functions in their own module.

    Modules, tensors and optimizers are not searched.
    """
    found: list[Found] = []
    seen: set[int] = set()
    queue = deque([root])
    while queue and len(seen) < _MOST_OBJECTS:
        one = queue.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, kind):
            found.append(one)
        elif not isinstance(one, _OPAQUE):
            queue.extend(_held_by(one))
    return found


def _held_by(one: object) -> Iterator[object]:
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from one
    elif isinstance(one, MethodType):
        yield one.__self__
    elif isinstance(one, partial):
        yield from (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, FunctionType):
        yield from (cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell))
        yield from _globals_of(one)
    else:
        yield from getattr(one, "__dict__", {}).values()
        slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
        yield from (getattr(one, name, None) for name in slots)


def _globals_of(function: FunctionType) -> Iterator[object]:
    """Globals used by a script's function: a step defined at the top level references its objects
    only there."""
    if (function.__module__ or "").partition(".")[0] in _LIBRARIES:
        return
    names = dict.fromkeys(_names_in(function.__code__))
    yield from (function.__globals__[name] for name in names if name in function.__globals__)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


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
