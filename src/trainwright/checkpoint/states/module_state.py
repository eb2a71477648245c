"""State of a torch module: parameters and buffers, checked against the object that takes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.distributed.tensor_shards import in_own_order, whole_of_parts, write_into

_SHOWN = 5
_EXTRA = "extra"
_ORIGIN = "origin"

_SUFFIX = "_extra_state"
"""What torch calls the extra state of a module in its `state_dict`."""


def check_same_names(what: str, expected: Iterable[str], found: Iterable[str]) -> None:
    """Raise `Mistake` unless both have the same names."""
    wanted, given = set(expected), set(found)
    problems = [
        _problem(what, f"{text} {_list(names)}")
        for text, names in (("lacks", wanted - given), ("has beside", given - wanted))
        if names
    ]
    if problems:
        raise Mistake(problems)


def check_same_layout(
    what: str, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> None:
    """Raise `Mistake` unless both have the same names, dtypes and shapes."""
    check_same_names(what, expected, found)
    problems = [
        _problem(what, f"{name}: {_layout(found[name])}", _layout(expected[name]))
        for name in expected
        if found[name].dtype != expected[name].dtype or found[name].shape != expected[name].shape
    ]
    if problems:
        raise Mistake(problems[:_SHOWN])


def _layout(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _list(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _problem(what: str, found: str, expected: str = "") -> Problem:
    return Problem(
        f"the checkpoint is of another {what}",
        found=f"the checkpoint {found}" if not expected else found,
        expected=expected,
        fix="resume with the contract and the version that the run was started with",
    )


@final
class ModuleState:
    """Parameters, persistent buffers and extra state by name. Tied tensors are stored once.

    Extra state is what `get_extra_state` of a module gives: a tensor, or JSON values. Restoring
    passes it to `set_extra_state` and writes the rest into the module's own tensors, so ties and
    the optimizer's references to the parameters are preserved.

    Parameters without `requires_grad` at the first checkpoint of a run are its base: they are
    stored once, and again only if they change.

    Args:
        module: the module.
        origin: what the frozen parameters are, such as `resnet50, IMAGENET1K_V2`; a checkpoint of
            other ones is refused.
        outside: names that no checkpoint holds, as the files of a base do; never trained.
    """

    def __init__(
        self, module: nn.Module, origin: str = "", outside: Collection[str] = frozenset()
    ) -> None:
        self._module = module
        self._origin = origin
        self._outside = frozenset(outside)

    @property
    def module(self) -> nn.Module:
        """The module."""
        return self._module

    def snapshot(self) -> Snapshot:
        """Copy of every tensor; `tied` names the first name of each repeated one. Forward passes
        change buffers, but no parameters."""
        return self.snapshot_with({})

    def snapshot_with(self, others: Mapping[str, Tensor]) -> Snapshot:
        """The same with other values for the named tensors, which only an update changes."""
        named, extra = self._parts()
        first, tied = _first_names(named)
        parameters = {name for name, tensor in first.items() if isinstance(tensor, nn.Parameter)}
        tensors = {
            name: whole_of_parts(others.get(name, tensor), tensor) for name, tensor in first.items()
        }
        frozen = frozen_parameters(first, others)
        values = {"tied": tied, **extra, **self._origin_of(frozen)}
        updated = {*parameters, *others}
        return Snapshot(tensors=tensors, values=values, updated=updated, frozen=frozen)

    def snapshot_at_once(self) -> Snapshot:
        """The same for a caller that changes the parameters immediately afterwards."""
        named, extra = self._parts()
        first, tied = _first_names(named)
        frozen = frozen_parameters(first)
        values = {"tied": tied, **extra, **self._origin_of(frozen)}
        tensors = {name: whole_of_parts(tensor, tensor) for name, tensor in first.items()}
        return Snapshot(tensors=tensors, values=values, frozen=frozen)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the tensors.

        Raises:
            Mistake: names, shapes, dtypes or ties differ from the module's; nothing has changed.
        """
        named, extra = self._parts()
        first, tied = _first_names(named)
        values = snapshot.values
        self._check_origin(values.get(_ORIGIN, ""))
        found, found_extra = values["tied"], values.get(_EXTRA, {})
        for name, other in found.items():
            # Older versions treated names that share memory as tied as well.
            if name in first and other in first and _share_memory(first[name], first[other]):
                del first[name]
                tied[name] = other
        check_same_layout("model", first, snapshot.tensors)
        check_same_names(
            "model",
            (f"{a} = {b}" for a, b in tied.items()),
            (f"{a} = {b}" for a, b in found.items()),
        )
        check_same_names("model", extra.get(_EXTRA, {}), found_extra)
        with torch.no_grad():
            for name, tensor in first.items():
                if is_extra_state(name):
                    self._set_extra(name, snapshot.tensors[name].clone())
                else:
                    write_into(tensor, in_own_order(snapshot.tensors[name], tensor))
        for name, value in found_extra.items():
            self._set_extra(name, value)
        snapshot.adopt_frozen(first)

    def _origin_of(self, frozen: Mapping[str, Tensor]) -> dict[str, Json]:
        is_partial = frozen or self._outside
        return {_ORIGIN: self._origin} if is_partial and self._origin else {}

    def _check_origin(self, found: str) -> None:
        if found and self._origin and found != self._origin:
            raise Mistake(
                Problem(
                    "the checkpoint was trained on another base",
                    found=self._origin,
                    expected=found,
                    fix="start from the frozen weights that the run was started with, or train "
                    "into another folder",
                )
            )

    def _parts(self) -> tuple[dict[str, Tensor], dict[str, Json]]:
        """The tensors, and the extra state that is no tensor, where there is some.

        Raises:
            Mistake: extra state cannot be kept.
        """
        every = self._module.state_dict(keep_vars=True)
        named = {name: one for name, one in every.items() if name not in self._outside}
        if problems := list(extra_state_problems(self._module, named)):
            raise Mistake(problems)
        tensors = {name: one for name, one in named.items() if isinstance(one, Tensor)}
        extra = {name: one for name, one in named.items() if name not in tensors}
        return tensors, {_EXTRA: extra} if extra else {}

    def _set_extra(self, name: str, value: object) -> None:
        path = name.removesuffix(_SUFFIX).removesuffix(".")
        self._module.get_submodule(path).set_extra_state(value)


def extra_state_problems(module: nn.Module, named: Mapping[str, object]) -> Iterator[Problem]:
    """Extra state in the `state_dict` of a module that a checkpoint cannot hold, or that nothing
    would put back."""
    for name, value in named.items():
        if not is_extra_state(name):
            continue
        path = name.removesuffix(_SUFFIX).removesuffix(".")
        kind = type(module.get_submodule(path))
        if not (isinstance(value, Tensor) or _is_plain(value)):
            yield Problem(
                "the extra state of a module cannot be kept in a checkpoint",
                path=f"{kind.__name__}.get_extra_state",
                found=f"{type(value).__name__}: {value!r:.80}",
                expected="a tensor, or texts, numbers, lists and dictionaries named by texts",
                fix="return that from get_extra_state, and make what you need of it in "
                "set_extra_state",
            )
        elif kind.set_extra_state is nn.Module.set_extra_state:
            yield Problem(
                "the extra state of a module is kept, and nothing puts it back",
                path=f"{kind.__name__}.set_extra_state",
                found="get_extra_state alone",
                fix="write set_extra_state(self, state) beside it",
            )


def is_extra_state(name: str) -> bool:
    """Whether torch keeps extra state under this name of a `state_dict`."""
    return name.rpartition(".")[2] == _SUFFIX


def _is_plain(value: object) -> bool:
    """Whether JSON gives the same value back."""
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def frozen_parameters(
    named: Mapping[str, Tensor], others: Mapping[str, Tensor] = MappingProxyType({})
) -> dict[str, Tensor]:
    """Parameters without `requires_grad`; of those that `others` gives another value, only the ones
    that have it."""
    return {
        name: one
        for name, one in named.items()
        if isinstance(one, nn.Parameter)
        and not one.requires_grad
        and (name not in others or torch.equal(others[name], one))
    }


def _first_names(named: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Distinct tensors under their first names, and the first name of every repeated one. Names are
    tied if they refer to one tensor object: memory addresses are meaningless for sharded
    tensors."""
    seen: dict[int, str] = {}
    first: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in named.items():
        if tensor.numel() and id(tensor) in seen:
            tied[name] = seen[id(tensor)]
        else:
            seen[id(tensor)] = name
            first[name] = tensor
    return first, tied


def _share_memory(one: Tensor, other: Tensor) -> bool:
    """Do two tensors share all of their memory? Shards have no address, and never do."""
    address = one.data_ptr()
    same = address == other.data_ptr() and one.device == other.device
    layout = (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
    return address != 0 and same and layout
