"""State of the random number generators used by a step."""

from __future__ import annotations

import hashlib
import random
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many

_CPU = "torch_cpu"
_CUDA = "torch_cuda_"
_OWN = "own_"

Generator: TypeAlias = torch.Generator | np.random.Generator | random.Random
"""Generator created by a script."""


def seed_generators(seed: int) -> None:
    """Seed every generator of `RandomState` (seed below 2 ** 32)."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def key_generators(
    seed: int, samples: int, device: torch.device, first: int = 0, index: int = 0
) -> None:
    """Seed the generators that modules on a device draw from by a hash of a seed, the position of a
    step and the index of a micro-batch in it, counted from `first`."""
    text = f"draws/{seed}/{samples}/{first + index}".encode()
    key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    torch.default_generator.manual_seed(key)
    if device.type == "cuda":
        torch.cuda.default_generators[torch.cuda.current_device()].manual_seed(key)


@final
class RandomState:
    """Global generators of Python, NumPy and torch (CPU and each CUDA device), and a script's `own`
    ones, in the given order."""

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(self, *own: Generator) -> None:
        self._own = own

    def snapshot(self) -> Snapshot:
        """State of each generator."""
        version, internal, gauss = random.getstate()
        numpy = np.random.get_state(legacy=False)
        assert isinstance(numpy, dict), "legacy=False gives a dict"
        tensors = {_CPU: torch.get_rng_state()}
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for index, state in enumerate(torch.cuda.get_rng_state_all()):
                tensors[f"{_CUDA}{index}"] = state
        states = [state_of_generator(one) for one in self._own]
        tensors |= {f"{_OWN}{at}": one for at, one in enumerate(states) if isinstance(one, Tensor)}
        written = [None if isinstance(one, Tensor) else one for one in states]
        return Snapshot(
            tensors=tensors,
            values={
                "python": {"version": version, "internal": list(internal), "gauss": gauss},
                "numpy": {
                    "generator": numpy["bit_generator"],
                    "key": [int(word) for word in numpy["state"]["key"]],
                    "position": int(numpy["state"]["pos"]),
                    "has_gauss": int(numpy["has_gauss"]),
                    "gauss": float(numpy["gauss"]),
                },
                **({"own": written} if written else {}),
            },
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore each generator; of devices, those that this machine has.

        Raises:
            Mistake: the snapshot has other generators of the script.
        """
        python, numpy = snapshot.values["python"], snapshot.values["numpy"]
        random.setstate((python["version"], tuple(python["internal"]), python["gauss"]))
        np.random.set_state(
            (
                numpy["generator"],
                np.array(numpy["key"], dtype=np.uint32),
                numpy["position"],
                numpy["has_gauss"],
                numpy["gauss"],
            )
        )
        torch.set_rng_state(snapshot.tensors[_CPU])
        available = torch.cuda.device_count()
        for name, state in snapshot.tensors.items():
            if name.startswith(_CUDA) and int(name.removeprefix(_CUDA)) < available:
                torch.cuda.set_rng_state(state, int(name.removeprefix(_CUDA)))
        self._restore_own(snapshot)

    def _restore_own(self, snapshot: Snapshot) -> None:
        written = snapshot.values.get("own", [])
        if len(written) != len(self._own):
            raise Mistake(
                Problem(
                    "the checkpoint holds other generators of random numbers",
                    path="tw.RandomState",
                    found=many(len(self._own), "generator"),
                    expected=many(len(written), "generator"),
                    fix="use the generators that the run started with, or start in another folder",
                )
            )
        for at, (one, state) in enumerate(zip(self._own, written, strict=True)):
            _put_back(one, snapshot.tensors[f"{_OWN}{at}"] if state is None else state)


def state_of_generator(generator: Generator) -> Tensor | Json:
    """Copy of a generator's state; a draw changes it."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return _as_json(generator.bit_generator.state)
    version, internal, gauss = generator.getstate()
    return {"version": version, "internal": list(internal), "gauss": gauss}


def _put_back(generator: Generator, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = _from_json(state)
    else:
        generator.setstate((state["version"], tuple(state["internal"]), state["gauss"]))


def _as_json(value: Any) -> Json:
    """State of a NumPy generator, with arrays as lists and large integers as strings."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": [int(one) for one in value], "dtype": str(value.dtype)}
    return {"integer": str(value)} if isinstance(value, int) else value


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if "integer" in value:
        return int(value["integer"])
    return {name: _from_json(one) for name, one in value.items()}
