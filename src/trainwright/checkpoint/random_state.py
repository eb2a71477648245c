"""The state of every generator of random numbers that a step may draw from."""

from __future__ import annotations

import random
from typing import final

import numpy as np
import torch

from trainwright.checkpoint.state import Snapshot

_CPU = "torch_cpu"
_CUDA = "torch_cuda_"


def seed_generators(seed: int) -> None:
    """Set every generator that `RandomState` keeps to its state for this seed (below 2 ** 32)."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@final
class RandomState:
    """The global generators of Python, NumPy and torch: of the CPU and of each CUDA device."""

    def snapshot(self) -> Snapshot:
        """The state of each."""
        version, internal, gauss = random.getstate()
        numpy = np.random.get_state(legacy=False)
        assert isinstance(numpy, dict), "legacy=False gives a dict"
        tensors = {_CPU: torch.get_rng_state()}
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for index, state in enumerate(torch.cuda.get_rng_state_all()):
                tensors[f"{_CUDA}{index}"] = state
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
            },
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Put each generator back; of devices, those that this machine has."""
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
