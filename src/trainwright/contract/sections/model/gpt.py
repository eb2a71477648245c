"""`model` of kind `gpt`: a decoder-only transformer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.model.adapter import DecoderAdapter, PromptTuning
from trainwright.contract.sections.model.pretrained import Base, DecoderOfBase, baseless_adapter
from trainwright.contract.sections.model.traits import Traits
from trainwright.contract.sections.section import Count, Fraction, Section, tagged_by
from trainwright.core.errors import Problem

Factor = Annotated[float, Field(ge=1)]


class LinearScaling(Section):
    """Positions divided by a factor (Chen et al. 2023, arXiv:2306.15595, section 2.3)."""

    kind: Literal["linear"]

    factor: Factor
    """How many times longer windows become."""


class Llama3Scaling(Section):
    """Slow frequencies divided by a factor, fast ones kept, those between interpolated, as in Llama
    3.1 (Grattafiori et al. 2024, arXiv:2407.21783, section 3.2)."""

    kind: Literal["llama3"]

    factor: Factor = 8.0
    """How many times longer windows become."""

    low_frequency: Factor = 1.0
    """Frequencies with fewer turns than this in `original_context` are divided."""

    high_frequency: Factor = 4.0
    """Frequencies with more turns than this in `original_context` are kept."""

    original_context: Count = 8192
    """Longest window before."""


class Mup(Section):
    """Maximal update parametrization: initial weights, learning rates and two factors such that the
    best learning rate does not depend on the width (Yang et al. 2022, Tensor Programs V,
    arXiv:2203.03466, table 8, for Adam). With m = `width` / `base_width`: matrices inside the
    blocks start with 1 / sqrt(m) of the deviation and learn with 1 / m of the rate, and their
    weight decay is m times as large, so that a step decays as much; logits are divided by m."""

    kind: Literal["mup"]

    base_width: Count
    """Width for which the learning rate was found; a model of this width is the usual one."""

    base_heads: Annotated[int, Field(ge=0)] = 0
    """Heads of the model of `base_width`. Attention is divided by the width of a head in place of
    its root, so that it is the usual one at the head width of that model. 0: heads of the same
    width as here, of which there are fewer."""


RotaryScaling = Annotated[
    Annotated[LinearScaling, Tag("linear")] | Annotated[Llama3Scaling, Tag("llama3")],
    tagged_by("kind", default="missing"),
]


class Gpt(DecoderOfBase):
    """A transformer that predicts the next token from those before it (Radford et al. 2019), with
    the norm before each part. With `norm: rms`, `feed_forward: swiglu` and `tied: false` it is a
    Llama (Touvron et al. 2023, arXiv:2302.13971)."""

    traits: ClassVar[Traits] = Traits(
        reads=("tokens",),
        has_blocks=True,
        has_attention=True,
        fuses_head=True,
        quantizes=True,
        writes_text=True,
        files=("base",),
        adapters=frozenset({"lora", "rslora", "dora", "ia3", "prompt_tuning"}),
    )

    kind: Literal["gpt"]

    architecture: str = ""
    """A folder in the layout of Hugging Face (`config.json`, `model.safetensors`), relative to the
    contract, or the name of a model of the hub, whose `model_type` is `llama`, `qwen2` or `gpt2`:
    the training starts from its weights, and every field below is read from its configuration,
    except `context` and `dropout`. With HF_HUB_OFFLINE=1 only the local cache of the hub is
    read."""

    revision: str = "main"
    """Branch, tag or commit of a model of the hub."""

    weights: Literal["pretrained", "none"] = "pretrained"
    """Initial weights of an `architecture`: its own, or `none`, random ones."""

    adapter: Literal["none"] | DecoderAdapter = "none"
    """Weights that are trained beside those of an `architecture`, which are frozen."""

    quantization: Literal["none", "nf4", "int8"] = "none"
    """How the matrices of the blocks are held beside an adapter: `none`, as numbers of 32 bits;
    `nf4`, 4 bits by the quantiles of a normal distribution, in groups of 64 with a scale (QLoRA:
    Dettmers et al. 2023, arXiv:2305.14314, section 3); `int8`, 8 bits with a scale for each row.
    They are computed with as numbers of 32 or 16 bits. By bitsandbytes."""

    layers: Count = 4
    """Blocks of attention and feed-forward."""

    heads: Count = 4
    """Attention heads of a block; a divisor of `width`."""

    kv_heads: Annotated[int, Field(ge=0)] = 0
    """Heads of keys and values, each shared by as many query heads (Ainslie et al. 2023,
    arXiv:2305.13245); a divisor of `heads`. 0: as many as `heads`."""

    width: Count = 128
    """Features of each position."""

    context: Annotated[int, Field(ge=2)] = 64
    """Tokens that the model sees at once. A training row is a window of so many tokens."""

    dropout: Fraction = 0.0
    """Share dropped of the embedding, of attention and at the end of each part of a block."""

    positions: Literal["rotary", "learned"] = "rotary"
    """How the model knows the order: `rotary` turns queries and keys by their position (Su et al.
    2021, arXiv:2104.09864), `learned` adds a vector for each position."""

    rotary_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary frequencies; larger ones turn more slowly, for longer windows."""

    rotary_scaling: Literal["none"] | RotaryScaling = "none"
    """How rotary frequencies are scaled for windows longer than those of earlier training:
    `linear` or `llama3`."""

    norm: Literal["layer", "rms"] = "layer"
    """Normalisation before each part: `layer` (Ba et al. 2016, arXiv:1607.06450) or `rms` (Zhang
    and Sennrich 2019, arXiv:1910.07467)."""

    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Added to the variance in the norm."""

    feed_forward: Literal["gelu", "gelu_tanh", "swiglu"] = "gelu"
    """Activation of the feed-forward part: `gelu` (Hendrycks and Gimpel 2016, arXiv:1606.08415),
    its approximation by tanh (GPT-2), or `swiglu` with a gate (Shazeer 2020, arXiv:2002.05202)."""

    inner: Annotated[int, Field(ge=0)] = 0
    """Features inside the feed-forward part. 0: four times `width`, and 8/3 times with a gate,
    rounded up to a multiple of 8, which has as many weights."""

    bias: Literal["none", "attention", "all"] = "none"
    """Which projections and norms have a bias: `attention` those of queries, keys and values
    (Qwen2), `all` every one (GPT-2)."""

    tied: bool = True
    """Whether the head shares the weights of the embedding (Press and Wolf 2017,
    arXiv:1608.05859)."""

    vocabulary: Annotated[int, Field(ge=0)] = 0
    """Rows of the embedding, at least the tokens of the data. 0: as many."""

    init: Literal["usual"] | Mup = "usual"
    """Initial weights and their scaling with the width. `usual`: N(0, 0.02^2), at the ends of the
    branches divided by the root of their number (Radford et al. 2019, section 2.3); `mup`: scaled
    with the width, for the transfer of a learning rate from a narrow model to a wide one."""

    base: Literal["none"] | Base = "none"
    """What was found in the files of `architecture`; the plan fills it in."""

    @property
    def block_count(self) -> int:
        """Blocks of attention and feed-forward."""
        return self.layers

    @property
    def context_length(self) -> int:
        """Tokens of a window."""
        return self.context

    @property
    def has_base(self) -> bool:
        """Does it start from the weights of another model of its kind?"""
        return bool(self.architecture) and self.weights == "pretrained"

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained, and not the base?"""
        return self.adapter != "none"

    @property
    def is_quantized(self) -> bool:
        """Is its base held in few bits?"""
        return self.quantization != "none"

    @property
    def prompt_length(self) -> int:
        """Trained vectors before each document."""
        return self.adapter.tokens if isinstance(self.adapter, PromptTuning) else 0

    @property
    def head_width(self) -> int:
        """Features of a head."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def inner_width(self) -> int:
        """Features inside the feed-forward part."""
        if self.inner:
            return self.inner
        if self.feed_forward != "swiglu":
            return 4 * self.width
        return -(-8 * self.width // 24) * 8

    @property
    def scales_with_width(self) -> bool:
        """Do its learning rates follow its width?"""
        return self.init != "usual"

    @property
    def width_factor(self) -> float:
        """1 / m of `mup`: how much narrower the model is whose learning rate is used."""
        return 1.0 if self.init == "usual" else self.init.base_width / self.width

    @property
    def attention_factor(self) -> float:
        """Factor on the usual scale of attention, 1 / sqrt(head width)."""
        if self.init == "usual" or not self.init.base_heads:
            return 1.0
        return math.sqrt(self.init.base_width / self.init.base_heads / self.head_width)

    def own_problems(self) -> Iterator[Problem]:
        """Of what it starts from, and of its shape."""
        yield from self._base_problems()
        yield from self._shape_problems()

    def division_problems(self, tensor: int, pipeline: int) -> Iterator[Problem]:
        """Each process gets as many heads, inner features and positions, each stage a block, and
        the head is not that of the embedding. A model in the shape of a base has one once its files
        were read."""
        if self.architecture and self.base == "none":
            return
        sizes = (self.heads, self.key_heads, self.inner_width, self.context)
        for field, size in zip(("heads", "kv_heads", "inner", "context"), sizes, strict=True):
            if size % tensor:
                yield Problem(
                    "the model cannot be divided into equal parts",
                    path=f"model.{field}",
                    found=f"{size:,}",
                    expected=f"a multiple of distributed.tensor, {tensor}",
                    fix=f"change it to {-(-size // tensor) * tensor}, or remove distributed.tensor",
                )
        if self.layers < pipeline:
            yield Problem(
                "a stage of the pipeline would have no block",
                path="distributed.pipeline",
                found=f"{pipeline}, and {self.layers} blocks",
                expected=f"at most model.layers, {self.layers}",
                fix=f"change it to {self.layers}",
            )
        if self.tied and pipeline > 1:
            yield Problem(
                "the head and the embedding are in different stages",
                path="model.tied",
                found="true",
                expected="false with distributed.pipeline",
                fix="change it to false, or remove distributed.pipeline",
            )

    def _base_problems(self) -> Iterator[Problem]:
        """An adapter needs a base, and a base has its own scale."""
        if self.has_adapter and not self.has_base:
            path = "model.weights" if self.architecture else "model.adapter"
            yield baseless_adapter(path, self.weights if self.architecture else "no architecture")
        if self.quantization != "none" and not self.has_adapter:
            yield Problem(
                "a quantised model cannot be trained without an adapter",
                path="model.quantization",
                found=self.quantization,
                expected="model.adapter beside it",
                fix="remove quantization",
            )
        if self.architecture and self.init != "usual":
            yield Problem(
                "a model in the shape of a base has its own scale",
                path="model.init",
                found=self.init.kind,
                expected="usual",
                fix="train it in its own scale, or give the shape in place of the architecture",
            )

    def _shape_problems(self) -> Iterator[Problem]:
        """Every head gets as many features, and an even number of them; every head of keys as many
        heads of queries."""
        wanted = 2 * self.heads
        if self.width % wanted:
            yield Problem(
                f"model.width {self.width} is not a multiple of twice model.heads",
                path="model.width",
                found=str(self.width),
                expected=f"a multiple of {wanted}",
                fix=f"change it to {max(1, round(self.width / wanted)) * wanted}",
            )
        if self.heads % self.key_heads:
            divisors = [one for one in range(1, self.heads + 1) if self.heads % one == 0]
            yield Problem(
                f"model.heads {self.heads} is not a multiple of model.kv_heads",
                path="model.kv_heads",
                found=str(self.kv_heads),
                expected=f"one of {', '.join(map(str, divisors))}",
                fix=f"change it to {max(one for one in divisors if one <= self.kv_heads)}"
                if self.kv_heads < self.heads
                else "remove it",
            )
        if self.positions == "learned" and self.rotary_scaling != "none":
            yield Problem(
                "learned positions have no rotary frequencies",
                path="model.rotary_scaling",
                found=self.rotary_scaling.kind,
                fix="remove rotary_scaling",
            )
