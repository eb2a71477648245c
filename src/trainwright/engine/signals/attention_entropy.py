"""Attention entropy of a transformer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.signals.network_inspection import seeing
from trainwright.engine.signals.telemetry import Window
from trainwright.model.model_call import WithAttention
from trainwright.tracking.events import Number

_MOST_CHANCES = 2**23


@final
class AttentionEntropy:
    """`attention_entropy/<block>`: entropy of the attention probabilities of a position, normalised
    by that of the uniform distribution, from 0 (all attention on one position) to 1 (uniform),
    averaged over heads and positions; `attention_entropy_least/<block>` is that of the head with
    the lowest entropy and `attention_logit/<block>` the largest |q k| / sqrt(d). Entropy collapsing
    to 0 while the logit grows precedes training instability (Zhai et al. 2023, arXiv:2303.06296).

    Fused attention never materialises the probabilities, so they are recomputed from queries and
    keys of the first rows of the measured step, as many as give 8 million probabilities per block.
    The first position, which can attend only to itself, is excluded.
    """

    def __init__(self, network: WithAttention) -> None:
        self._network = network
        self._found: dict[str, Tensor] = {}

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Capture the query and key projections of the step."""
        self._found = {}
        with seeing(self._network.projections, self._see):
            yield

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Entropies and logits of the measured step."""
        found, self._found = self._found, {}
        names = ("attention_entropy", "attention_entropy_least", "attention_logit")
        return {
            f"{what}/{block}": number
            for block, numbers in found.items()
            for what, number in zip(names, numbers.unbind(), strict=True)
        }

    def _see(self, name: str, _: nn.Module, projected: Tensor) -> None:
        """Capture the first micro-batch only."""
        if name not in self._found:
            queries, keys, _values = self._network.split(name, projected)
            rows = max(1, _MOST_CHANCES // (queries.shape[1] * queries.shape[2] ** 2))
            self._found[name] = _spread(queries[:rows].float(), keys[:rows].float())


def _spread(queries: Tensor, keys: Tensor) -> Tensor:
    """Mean entropy, lowest entropy of a head, and largest logit, for q and k of shape [B, heads, L,
    d]."""
    length = queries.shape[2]
    logits = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
    ahead = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu(1)
    logs = logits.masked_fill(ahead, -torch.inf).log_softmax(dim=3)
    entropy = -(logs.exp() * logs.masked_fill(ahead, 0.0)).sum(dim=3)
    even = torch.arange(1, length + 1, device=logits.device).log()
    heads = (entropy[..., 1:] / even[1:]).mean(dim=(0, 2))
    return torch.stack([heads.mean(), heads.amin(), logits.masked_fill(ahead, 0.0).abs().amax()])
