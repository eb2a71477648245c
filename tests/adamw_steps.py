"""A plain loop of AdamW over one batch of tokens, for a decoder of ours or of transformers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 20


def tokens_of(rows: int = 3, length: int = 32) -> Tensor:
    return torch.randint(0, 131, (rows, length), generator=torch.Generator().manual_seed(1))


def trained(network: nn.Module, tokens: Tensor) -> list[float]:
    """The losses of 20 steps on the trainable parameters."""
    parameters = [one for one in network.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    losses = []
    for _ in range(STEPS):
        out = network(tokens)
        logits = out if isinstance(out, Tensor) else out.logits
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
