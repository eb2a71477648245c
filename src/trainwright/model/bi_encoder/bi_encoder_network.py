"""Bi-encoder of queries and passages (Reimers and Gurevych 2019, arXiv:1908.10084)."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainwright.model.dual_encoder.dual_encoder_network import (
    embedding_length,
    first_log_scale,
    unit_length,
)


@final
class BiEncoderNetwork(nn.Module):
    """(query_ids [B, L], passage_ids [B, P], negative_ids [B, K, H], and a mask of each) ->
    [B, (2 + K) D]: the embedding of the query, that of the passage and those of
    the hard negatives, side by side.

    All have the length sqrt(s), s the learned inverse temperature, so that the product of two is
    their logit s cos. Of texts alone, `input_ids` and `attention_mask`, the output is [B, D].
    """

    def __init__(self, text: nn.Module, temperature: float) -> None:
        super().__init__()
        self.text = text
        self.log_scale = first_log_scale(temperature)

    def forward(
        self,
        query_ids: Int[Tensor, "B L"] | None = None,
        passage_ids: Int[Tensor, "B P"] | None = None,
        negative_ids: Int[Tensor, "B K H"] | None = None,
        query_mask: Int[Tensor, "B L"] | None = None,
        passage_mask: Int[Tensor, "B P"] | None = None,
        negative_mask: Int[Tensor, "B K H"] | None = None,
        input_ids: Int[Tensor, "B L"] | None = None,
        attention_mask: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B outputs"]:
        """Embeddings."""
        length = embedding_length(self.log_scale, self)
        sides = [
            self._embed(ids, mask) * length
            for ids, mask in (
                (query_ids, query_mask),
                (passage_ids, passage_mask),
                (input_ids, attention_mask),
            )
            if ids is not None
        ]
        if negative_ids is not None:
            rows, count, _ = negative_ids.shape
            mask = None if negative_mask is None else negative_mask.flatten(0, 1)
            hard = self._embed(negative_ids.flatten(0, 1), mask) * length
            sides.append(hard.view(rows, count * hard.shape[1]))
        return torch.cat(sides, dim=1)

    def _embed(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        states: Tensor = self.text(input_ids=ids, attention_mask=mask)
        return unit_length(states)
