"""Numbers that were drawn on the host, sent to the device. Needs torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """The values on the device, behind what is in line there: nothing waits for it."""
    return torch.from_numpy(values).to(device, non_blocking=True)
