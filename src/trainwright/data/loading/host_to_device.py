"""Asynchronous host-to-device copies. Needs torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """Copy values to the device asynchronously, in stream order."""
    return torch.from_numpy(values).to(device, non_blocking=True)
