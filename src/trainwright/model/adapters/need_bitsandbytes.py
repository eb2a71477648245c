"""bitsandbytes on this device, checked before anything else of a run."""

from __future__ import annotations

from typing import Final, Literal

from trainwright.core.errors import Mistake, Problem
from trainwright.core.lazy_imports import need_package, need_torch

_PATH: Final = "model.quantization"


def need_bitsandbytes(kind: Literal["nf4", "int8"]) -> None:
    """Check that a matrix can be quantised on the device of a training.

    Raises:
        MissingExtra: bitsandbytes is not installed. Mistake: it cannot work on this device.
    """
    need_torch(_PATH, "quantization")
    need_package("bitsandbytes", "eightbit", _PATH, "quantization")
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        _try_on(device, kind)
    # Kernels that were not built, or not for this device, fail each in their own way.
    except Exception as error:
        said = (str(error).splitlines() or [repr(error)])[0]
        raise Mistake(
            Problem(
                f"bitsandbytes cannot quantise to {kind} on this device",
                path=_PATH,
                found=f"{device.type}: {said:.200}",
                expected="a device that its kernels support",
                fix="remove quantization, or train on another machine",
            )
        ) from error


def _try_on(device: object, kind: Literal["nf4", "int8"]) -> None:
    import torch
    from torch import nn

    from trainwright.model.adapters.quantized_linear import quantize_layers

    with torch.random.fork_rng(devices=[]):
        network = nn.Sequential(nn.Linear(64, 64))
    quantize_layers(network, kind, ["0"])
    network.to(device)  # type: ignore[call-overload]
    row = torch.ones(1, 64, device=device, requires_grad=True)  # type: ignore[call-overload]
    network(row).sum().backward()
