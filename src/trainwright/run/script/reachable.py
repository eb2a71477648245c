"""Objects that another one holds, however deep, such as the optimizer within a wrapped step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

Found = TypeVar("Found")
_MOST_OBJECTS = 2000
_OPAQUE = (nn.Module, Tensor, Optimizer, str, bytes, int, float, type(None), type)


def find_within(root: object, kind: type[Found]) -> list[Found]:
    """Every object of `kind` that `root` holds in attributes, containers or closures.

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
    else:
        yield from getattr(one, "__dict__", {}).values()
        slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
        yield from (getattr(one, name, None) for name in slots)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
