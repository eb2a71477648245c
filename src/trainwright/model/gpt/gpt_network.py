"""Decoder-only transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.model.attention.causal_attention import attend, within_documents
from trainwright.model.input_shape import TokenShape

_DEVIATION = 0.02
_BASE = 10_000.0


@final
class GptNetwork(nn.Module):
    """Decoder-only transformer from tokens [B, L] to logits [B, L, V].

    Pre-norm blocks of attention and feed-forward with residual connections (Radford et al. 2019,
    "Language models are unsupervised multitask learners", section 2.3); the head is tied to the
    embedding (Press and Wolf 2017, arXiv:1608.05859).
    """

    def __init__(self, section: Gpt, shape: TokenShape) -> None:
        super().__init__()
        self.context = section.context
        self.embedding = nn.Embedding(shape.outputs, section.width)
        learned = section.positions == "learned"
        self.places = nn.Embedding(section.context, section.width) if learned else nn.Identity()
        self.learned = learned
        self.dropout = nn.Dropout(section.dropout)
        self.blocks = nn.ModuleList(_Block(section) for _ in range(section.layers))
        self.norm = nn.LayerNorm(section.width, bias=False)
        self.cosines: Tensor
        self.sines: Tensor
        cosines, sines = _angles(section)
        # Computed from the contract, so not saved with the weights.
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        _start(self, section.layers)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
    ) -> Float[Tensor, "B L V"]:
        """Logits of the next token at each position. In a packed window, `positions` start at 0 in
        each document, and documents do not attend to each other."""
        length = tokens.shape[1]
        assert length <= self.context, "a window is at most the context"
        x: Tensor = self.embedding(tokens)
        seen: Literal["past"] | Tensor = "past"
        if isinstance(positions, str):
            places = torch.arange(length, device=tokens.device)
            turn = (self.cosines[:length], self.sines[:length])
        else:
            places = positions
            turn = (self.cosines[positions][:, None], self.sines[positions][:, None])
            seen = within_documents(positions)
        if self.learned:
            x = x + self.places(places)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, turn, seen)
        return functional.linear(self.norm(x), self.embedding.weight)

    @property
    def projections(self) -> Mapping[str, nn.Module]:
        """Query-key-value projection of each block, by the path of the block."""
        return {
            f"blocks.{number}": block.get_submodule("queries_keys_values")
            for number, block in enumerate(self.blocks)
        }

    def split(
        self, block: str, projected: Float[Tensor, "B L D"]
    ) -> Sequence[Float[Tensor, "B H L d"]]:
        """Queries, keys and values from the output of a projection."""
        length = projected.shape[1]
        module = self.get_submodule(block)
        assert isinstance(module, _Block)
        return module.split(projected, (self.cosines[:length], self.sines[:length]))


@final
class _Block(nn.Module):
    def __init__(self, section: Gpt) -> None:
        super().__init__()
        width = section.width
        self.heads = section.heads
        self.dropout = section.dropout
        self.turned = section.positions == "rotary"
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.attended = nn.Linear(width, width, bias=False)
        self.before_forward = nn.LayerNorm(width, bias=False)
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.active = nn.GELU()
        self.narrow = nn.Linear(4 * width, width, bias=False)
        self.drop = nn.Dropout(section.dropout)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], seen: Literal["past"] | Tensor
    ) -> Tensor:
        x = x + self.drop(self.attended(self._attend(self.before_attention(x), turn, seen)))
        inner = self.active(self.wide(self.before_forward(x)))
        out: Tensor = x + self.drop(self.narrow(inner))
        return out

    def split(self, projected: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        rows, length, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
        split = projected.view(rows, length, 3, self.heads, width // self.heads)
        parts = split.permute(2, 0, 3, 1, 4)
        both, values = parts[:2], parts[2]
        # Queries and keys together: half as many passes over them.
        queries, keys = (_turned(both, turn) if self.turned else both).unbind(0)
        return queries, keys, values

    def _attend(
        self, x: Tensor, turn: tuple[Tensor, Tensor], seen: Literal["past"] | Tensor
    ) -> Tensor:
        queries, keys, values = self.split(self.queries_keys_values(x), turn)
        mixed = attend(queries, keys, values, self.dropout if self.training else 0.0, seen)
        return mixed.transpose(1, 2).reshape(x.shape)


def _angles(section: Gpt) -> tuple[Tensor, Tensor]:
    """Cosine and sine of position x frequency, [context, head / 2] each (RoPE: Su et al. 2021,
    arXiv:2104.09864, section 3.2.2)."""
    half = section.width // section.heads // 2
    frequencies = _BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(section.context, dtype=torch.float64), frequencies)
    return angles.cos().float(), angles.sin().float()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate each pair (i, i + head / 2) of [..., L, head] by the angle of its position."""
    cosines, sines = (part.to(x.dtype) for part in turn)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, first * sines + second * cosines], dim=-1)


def _start(network: nn.Module, layers: int) -> None:
    """Initialise weights from N(0, 0.02^2), and the output projections of the 2 x layers branches
    scaled by 1 / sqrt(2 x layers), which preserves the variance of the residual stream (Radford et
    al. 2019, section 2.3)."""
    for name, parameter in network.named_parameters():
        if parameter.ndim < 2:
            continue
        ends = name.endswith(("attended.weight", "narrow.weight"))
        nn.init.normal_(parameter, 0.0, _DEVIATION * ((2 * layers) ** -0.5 if ends else 1.0))
