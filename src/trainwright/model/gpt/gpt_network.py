"""Decoder-only transformer, in the shapes of GPT-2 and Llama. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, assert_never, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.gpt import Gpt, LinearScaling, Llama3Scaling
from trainwright.model.causal_attention import (
    KeyValueCache,
    attend,
    behind_prompt,
    within_documents,
)
from trainwright.model.input_shape import TokenShape

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_aten = torch.ops.aten
_DEVIATION = 0.02

Turn = tuple[Tensor, Tensor]
"""Cosines and sines of the positions."""


def swish_gate(joined: Float[Tensor, "*B I"]) -> Float[Tensor, "*B H"]:
    """silu(g) u of the halves g and u of the last dimension (SwiGLU: Shazeer 2020,
    arXiv:2002.05202, equation 6)."""
    gate, inner = joined.chunk(2, dim=-1)
    return functional.silu(gate) * inner


def lean_swish_gate(joined: Float[Tensor, "*B I"]) -> Float[Tensor, "*B H"]:
    """The same bits and the same gradient, without silu(g) kept between the passes: it is computed
    again. Where a compiler traces it decides itself what is kept."""
    if torch.compiler.is_compiling():
        return swish_gate(joined)
    found: Tensor = _SwishGate.apply(joined)  # type: ignore[no-untyped-call]
    return found


class _SwishGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, joined: Tensor) -> Tensor:
        ctx.save_for_backward(joined)
        return swish_gate(joined)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (joined,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = swish_gate(joined)
            again: Tensor
            (again,) = torch.autograd.grad(out, joined, gradients[0], create_graph=True)
            return again
        gate, inner = joined.chunk(2, dim=-1)
        of_gate = _aten.silu_backward(gradients[0] * inner, gate)
        return torch.cat([of_gate, gradients[0] * functional.silu(gate)], dim=-1)


def rotary_angles(section: Gpt) -> tuple[Float[Tensor, "C d"], Float[Tensor, "C d"]]:
    """Cosine and sine of position x frequency, for C positions and half of the features of a
    head."""
    half = section.head_width // 2
    frequencies = section.rotary_base ** (-torch.arange(half, dtype=torch.float64) / half)
    places = torch.arange(section.context + section.prompt_length, dtype=torch.float64)
    angles = torch.outer(places, _scaled(frequencies, section))
    return angles.cos().float(), angles.sin().float()


def _scaled(frequencies: Tensor, section: Gpt) -> Tensor:
    match section.rotary_scaling:
        case "none":
            return frequencies
        case LinearScaling(factor=factor):
            return frequencies / factor
        case Llama3Scaling() as scaling:
            turns = scaling.original_context * frequencies / (2 * math.pi)
            between = scaling.high_frequency - scaling.low_frequency
            kept = ((turns - scaling.low_frequency) / between).clamp(0, 1)
            return frequencies * (kept + (1 - kept) / scaling.factor)
        case _:
            assert_never(section.rotary_scaling)


def apply_rotary(
    x: Float[Tensor, "*B L d"], turn: tuple[Tensor, Tensor]
) -> Float[Tensor, "*B L d"]:
    """Rotate each pair of features (i, i + d / 2) by the angle of its position."""
    cosines, sines = (part.to(x.dtype) for part in turn)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, first * sines + second * cosines], dim=-1)


@final
class GptNetwork(nn.Module):
    """Decoder-only transformer from tokens [B, L] to logits [B, L, V].

    Pre-norm blocks of attention and feed-forward with residual connections (Radford et al. 2019,
    "Language models are unsupervised multitask learners", section 2.3).
    """

    def __init__(self, section: Gpt, shape: TokenShape) -> None:
        super().__init__()
        self.context = section.context
        vocabulary = section.vocabulary or shape.outputs
        self.embedding = nn.Embedding(vocabulary, section.width)
        learned = section.positions == "learned"
        # Vectors before each document, which an adapter adds.
        self.prompt_length = section.prompt_length
        self.prompt: nn.Module | None = None
        longest = section.context + section.prompt_length
        self.places = nn.Embedding(longest, section.width) if learned else nn.Identity()
        self.learned = learned
        self.dropout = nn.Dropout(section.dropout)
        self.blocks = nn.ModuleList(_Block(section) for _ in range(section.layers))
        self.norm = _norm(section)
        self.head = None if section.tied else nn.Linear(section.width, vocabulary, bias=False)
        self.cosines: Tensor
        self.sines: Tensor
        cosines, sines = rotary_angles(section)
        # Computed from the contract, so not saved with the weights.
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        self.output_factor = section.width_factor
        # Of a network that is cut into stages: whether another one follows, and over how many ranks
        # the positions are divided that it gets from the one before.
        self.continues, self.position_ranks = False, 1
        self.width, self.outputs = section.width, vocabulary
        _start(self, section)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
    ) -> Float[Tensor, "B L V"]:
        """Logits of the next token at each position. In a packed window, `positions` start at 0 in
        each document, and documents do not attend to each other."""
        features = self.features(tokens, positions)
        return features if self.continues else functional.linear(features, self.head_weight)

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Literal["running"] | Int[Tensor, "B L"] = "running",
        before: Literal["nothing"] | Float[Tensor, "B n D"] = "nothing",
    ) -> Float[Tensor, "B L D"]:
        """What the head reads at each position. Embeddings that stand `before` the tokens of each
        row take n positions of the context, and give no features."""
        ahead = _length(before)
        assert ahead + tokens.shape[1] * self.position_ranks <= self.context, (
            "a window is at most the context"
        )
        assert not ahead or isinstance(positions, str), "packed documents have nothing before them"
        prompt = self.prompt_length + ahead
        length = prompt + tokens.shape[1] * self.position_ranks
        seen: Literal["past"] | Tensor = "past"
        if isinstance(positions, str):
            places = torch.arange(length, device=tokens.device)
            turn = (self.cosines[:length], self.sines[:length])
        else:
            first = torch.arange(prompt, device=tokens.device).expand(len(tokens), -1)
            places = torch.cat([first, prompt + positions], dim=1) if prompt else positions
            turn = (self.cosines[places][:, None], self.sines[places][:, None])
            seen = behind_prompt(within_documents(positions), prompt)
        x = self._embed(tokens, places, before)
        for block in self.blocks:
            x = block(x, turn, seen)
        return self._normed(x[:, prompt:])

    @property
    def head_weight(self) -> Float[Tensor, "V D"]:
        """Weights of the head."""
        return self.embedding.weight if self.head is None else self.head.weight

    def extend(
        self,
        tokens: Int[Tensor, "B L"],
        cache: KeyValueCache,
        before: Literal["nothing"] | Float[Tensor, "B n D"] = "nothing",
    ) -> Float[Tensor, "B V"]:
        """Logits of the token after the last of `tokens`, which follow those of the cache; the
        cache grows by them. What stands `before` them is read with the first token."""
        begin, end = cache.length, cache.length + tokens.shape[1]
        assert _length(before) + end <= self.context, "a window is at most the context"
        prompt = self.prompt_length + _length(before)
        if prompt:
            # The prompt is read before the first token; the length is that of the tokens.
            begin, end = (begin and begin + prompt), end + prompt
        places = torch.arange(begin, end, device=tokens.device)
        turn = (self.cosines[begin:end], self.sines[begin:end])
        # Each position sees every earlier one, and those of the cache.
        seen = places[:, None] >= torch.arange(end, device=tokens.device)
        x = self._embed(tokens, places, before)
        for number, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            x = block.extend(x, turn, seen.expand(len(tokens), 1, -1, -1), cache, number)
        cache.length = end - prompt
        return functional.linear(self._normed(x[:, -1]), self.head_weight)

    def cut(self, stage: int, stages: int, position_ranks: int) -> None:
        """Keep one of several stages: see `Divisible`."""
        from trainwright.model.gpt.stage_gpt import cut_decoder

        cut_decoder(self, stage, stages, position_ranks)

    def divide(self, mesh: DeviceMesh) -> None:
        """Divide it over ranks: see `Divisible`."""
        from trainwright.model.gpt.divide_gpt import divide_decoder

        divide_decoder(self, mesh)

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
        queries, keys, values = module.split(
            projected, (self.cosines[:length], self.sines[:length])
        )
        return queries, module.shared(keys), module.shared(values)

    def _embed(self, tokens: Tensor, places: Tensor, before: Literal["nothing"] | Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        is_first = places.shape[-1] > tokens.shape[1]
        if is_first and not isinstance(before, str):
            x = torch.cat([before.to(x.dtype), x], dim=1)
        if is_first and self.prompt is not None:
            first = torch.arange(self.prompt_length, device=tokens.device)
            x = torch.cat([self.prompt(first).to(x.dtype).expand(len(x), -1, -1), x], dim=1)
        if self.learned:
            x = x + self.places(places)
        dropped: Tensor = self.dropout(x)
        return dropped

    def _normed(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed if self.output_factor == 1.0 else normed * self.output_factor


@final
class _Block(nn.Module):
    def __init__(self, section: Gpt) -> None:
        super().__init__()
        width, inner = section.width, section.inner_width
        self.heads, self.key_heads = section.heads, section.key_heads
        self.dropout = section.dropout
        self.attention_factor = section.attention_factor
        self.turned = section.positions == "rotary"
        self.gated = section.feed_forward == "swiglu"
        # Beside a frozen base activations are most of what a step adds to the memory.
        self.lean = section.has_adapter
        of_attention, everywhere = section.bias != "none", section.bias == "all"
        projected = (section.heads + 2 * section.key_heads) * section.head_width
        self.before_attention = _norm(section)
        self.queries_keys_values = nn.Linear(width, projected, bias=of_attention)
        self.attended = nn.Linear(width, width, bias=everywhere)
        self.before_forward = _norm(section)
        self.wide = nn.Linear(width, inner * (2 if self.gated else 1), bias=everywhere)
        tanh = section.feed_forward == "gelu_tanh"
        self.active = nn.SiLU() if self.gated else nn.GELU("tanh" if tanh else "none")
        self.narrow = nn.Linear(inner, width, bias=everywhere)
        self.drop = nn.Dropout(section.dropout)

    def forward(self, x: Tensor, turn: Turn, seen: Literal["past"] | Tensor) -> Tensor:
        x = x + self.drop(self.attended(self._attend(self.before_attention(x), turn, seen)))
        return self._forward(x)

    def extend(
        self, x: Tensor, turn: Turn, seen: Tensor, cache: KeyValueCache, number: int
    ) -> Tensor:
        """As `forward`, for positions behind those of the cache."""
        projected = self.queries_keys_values(self.before_attention(x))
        queries, keys, values = self.split(projected, turn)
        keys, values = cache.append(number, keys, values)
        mixed = attend(queries, self.shared(keys), self.shared(values), 0.0, seen)
        x = x + self.attended(mixed.transpose(1, 2).reshape(x.shape))
        return self._forward(x)

    def split(self, projected: Tensor, turn: Turn) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of `heads`, keys and values of `key_heads` heads."""
        queries, keys, values = self._split(projected, turn)
        return self._sharpened(queries), keys, values

    def _sharpened(self, queries: Tensor) -> Tensor:
        return queries if self.attention_factor == 1.0 else queries * self.attention_factor

    def _split(self, projected: Tensor, turn: Turn) -> tuple[Tensor, Tensor, Tensor]:
        heads, key_heads = self.heads, self.key_heads
        rows, length, _ = projected.shape
        by_head = projected.view(rows, length, heads + 2 * key_heads, -1)
        if heads == key_heads:
            parts = by_head.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            both, values = parts[:2], parts[2]
            # Queries and keys together: half as many passes over them.
            queries, keys = (apply_rotary(both, turn) if self.turned else both).unbind(0)
            return queries, keys, values
        shares = [heads, key_heads, key_heads]
        queries, keys, values = torch.split(by_head.transpose(1, 2), shares, dim=1)
        if self.turned:
            queries, keys = apply_rotary(queries, turn), apply_rotary(keys, turn)
        return queries, keys, values

    def shared(self, x: Tensor) -> Tensor:
        """Keys or values for every head of queries."""
        group = self.heads // self.key_heads
        return x if group == 1 else x.repeat_interleave(group, dim=1)

    def _attend(self, x: Tensor, turn: Turn, seen: Literal["past"] | Tensor) -> Tensor:
        queries, keys, values = self.split(self.queries_keys_values(x), turn)
        if self.lean and self.turned:
            # As a part of the projection they would keep all of it until the backward pass.
            values = values.contiguous()
        dropout = self.dropout if self.training else 0.0
        mixed = attend(queries, self.shared(keys), self.shared(values), dropout, seen)
        return mixed.transpose(1, 2).flatten(2)

    def _forward(self, x: Tensor) -> Tensor:
        inner = self.wide(self.before_forward(x))
        if self.gated:
            inner = lean_swish_gate(inner) if self.lean else swish_gate(inner)
        else:
            inner = self.active(inner)
        out: Tensor = x + self.drop(self.narrow(inner))
        return out


def _length(before: Literal["nothing"] | Tensor) -> int:
    """Positions of what stands before the tokens."""
    return 0 if isinstance(before, str) else before.shape[1]


def _norm(section: Gpt) -> nn.Module:
    if section.norm == "rms":
        return nn.RMSNorm(section.width, eps=section.norm_epsilon)
    return nn.LayerNorm(section.width, eps=section.norm_epsilon, bias=section.bias == "all")


def _start(network: nn.Module, section: Gpt) -> None:
    """Initialise weights from N(0, 0.02^2), and the output projections of the 2 x layers branches
    scaled by 1 / sqrt(2 x layers), which preserves the variance of the residual stream (Radford et
    al. 2019, section 2.3); biases with 0. Under mup the deviation of the matrices of the blocks
    goes with 1 / sqrt(width) (Yang et al. 2022, arXiv:2203.03466, table 8)."""
    layers, narrower = section.layers, section.width_factor**0.5
    for name, parameter in network.named_parameters():
        if name.endswith(".bias"):
            nn.init.zeros_(parameter)
        if parameter.ndim < 2:
            continue
        ends = name.endswith(("attended.weight", "narrow.weight"))
        scale = (2 * layers) ** -0.5 if ends else 1.0
        if name.startswith("blocks."):
            scale *= narrower
        nn.init.normal_(parameter, 0.0, _DEVIATION * scale)
