"""`model.adapter`: few weights that are trained beside a frozen base."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from trainwright.contract.sections.section import (
    Count,
    Fraction,
    Positive,
    Section,
    tagged_by,
)

Targets = Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)]


class LowRank(Section):
    """A product of two narrow matrices beside each adapted one. A is drawn at random and B is 0, so
    that the training starts at the base."""

    rank: Count = 16
    """Rows of A, columns of B."""

    alpha: Positive = 32.0
    """Scale of what is added."""

    dropout: Fraction = 0.0
    """Share of the inputs of A that is dropped."""

    targets: Targets = "all"
    """Layers that are adapted, by the last parts of their names in the architecture of the base,
    for example `[q_proj, v_proj]`; `all`: every linear layer but the head."""


class Lora(LowRank):
    """W x + (alpha / rank) B A x (Hu et al. 2021, arXiv:2106.09685, section 4.1)."""

    kind: Literal["lora"]


class RsLora(LowRank):
    """W x + (alpha / sqrt(rank)) B A x, so that a higher rank does not learn more slowly
    (Kalajdzievski 2023, arXiv:2312.03732)."""

    kind: Literal["rslora"]


class Dora(LowRank):
    """LoRA in which the length of each row of the matrix is trained apart from its direction (Liu
    et al. 2024, arXiv:2402.09353)."""

    kind: Literal["dora"]


class Ia3(Section):
    """A factor for each output of the adapted layers, or each input of the second layer of a
    feed-forward part, which starts at 1 (IA3: Liu et al. 2022, arXiv:2205.05638, section 3.3)."""

    kind: Literal["ia3"]

    targets: Literal["usual"] | Annotated[tuple[str, ...], Field(min_length=1)] = "usual"
    """Layers that are adapted, by the last parts of their names in the architecture of the base;
    `usual`: keys, values and the second layer of the feed-forward part."""


class PromptTuning(Section):
    """Trained vectors before each document, in the place of tokens (Lester et al. 2021,
    arXiv:2104.08691, section 2). They start as embeddings of tokens that are drawn at random."""

    kind: Literal["prompt_tuning"]

    tokens: Count = 20
    """Vectors. They take positions of the base beside those of `model.context`."""


LayerAdapter = Annotated[
    Annotated[Lora, Tag("lora")]
    | Annotated[RsLora, Tag("rslora")]
    | Annotated[Dora, Tag("dora")]
    | Annotated[Ia3, Tag("ia3")],
    tagged_by("kind", default="missing"),
]
"""Of any network."""

DecoderAdapter = Annotated[
    Annotated[Lora, Tag("lora")]
    | Annotated[RsLora, Tag("rslora")]
    | Annotated[Dora, Tag("dora")]
    | Annotated[Ia3, Tag("ia3")]
    | Annotated[PromptTuning, Tag("prompt_tuning")],
    tagged_by("kind", default="missing"),
]
"""Of a decoder."""

InLayers = Lora | RsLora | Dora | Ia3
Adapter = InLayers | PromptTuning
