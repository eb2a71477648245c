"""Traits of a family of models: what rules, planner and run ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

from trainwright.contract.sections.section import Section
from trainwright.core.errors import Problem

DataKind = Literal["table", "images", "tokens", "pairs", "text_pairs", "captions"]

Trainer = Literal["loop", "library", "selection"]
"""`loop`: a network, trained step by step; `library`: fits itself; `selection`: one of several
models, each trained in its own way."""

Predicted = Literal["counts", "quantiles", "targets", "labels"]
"""What a model can predict beside classes and the mean of a number."""

ANY_NUMBER: frozenset[Predicted] = frozenset({"counts", "quantiles"})
EVERYTHING: frozenset[Predicted] = frozenset({"counts", "quantiles", "targets", "labels"})

AdapterKind = Literal["lora", "rslora", "dora", "ia3", "prompt_tuning"]
"""`model.adapter.kind`."""

Monotone = Mapping[str, Literal["increasing", "decreasing"]]
"""Numeric columns, and how the prediction follows each of them."""

Default = tuple[str, str]
"""What `auto` stands for, and why."""


@final
@dataclass(frozen=True, slots=True)
class TableDefaults:
    """How columns of a table are encoded for a family where the contract says `auto`; by default
    for networks. `categorical` holds for rows in memory; of rows in files categories are codes."""

    numeric: Default = ("quantile", "networks learn best from evenly spread numbers")
    impute: Default = ("median", "the model cannot read a missing number")
    categorical: Default = ("codes", "the model learns what each category means")
    reduce: Default = (
        "svd",
        "a column for each term would hold most of the weights of the first layer",
    )
    terms: tuple[int, str] = (5000, "they are reduced to a few columns")


@final
@dataclass(frozen=True, slots=True)
class Traits:
    """A family of models, whatever its settings.

    `reads` are the kinds of data that it reads; with `reads_files`, also rows of a table that stay
    in files; with `reads_missing`, missing numbers. `rounds` is the field that limits the rounds of
    a library, which a budget can cut; empty without rounds. `unit` is a round or step.
    `training_keys` are the paths below `training` that a library heeds. `is_linear`: as the linear
    baseline. `files` are the fields, by path, that the plan reads from files of the model, without
    which it cannot be if `needs_files`. `runs_code`: it is code of the user's own, which no fix
    proposes.
    `has_attention`: causal, as `tracking.inspect` measures it. `ranks`: its score of a row ranks
    the rows of a query. `writes_text`: it continues one token by token; `describes_images`: it
    writes texts of images so. `predicts` is what it can
    predict beside classes and the mean of a number: `counts`, with a rate above 0, several
    `quantiles`, several numeric `targets`, and `labels`. `weighs_rows`: rows can count more or
    less. `adapters` are the kinds of `model.adapter`, with which a base is frozen.
    `fuses_head`: its loss can be computed from what its head reads. `quantizes`: a base beside an
    adapter can be held in 4 or 8 bits. `has_row_state`: its head reads one vector of a row, which a
    teacher can show. `divides_rows`: a library that several processes can train together, each on
    a part of the rows.
    """

    reads: tuple[DataKind, ...]
    trained_by: Trainer = "loop"
    rounds: str = ""
    unit: str = "step"
    training_keys: frozenset[str] = frozenset()
    reads_missing: bool = False
    reads_files: bool = True
    is_linear: bool = False
    has_blocks: bool = False
    has_convolutions: bool = False
    has_attention: bool = False
    ranks: bool = False
    writes_text: bool = False
    describes_images: bool = False
    weighs_rows: bool = True
    table: TableDefaults = TableDefaults()
    files: tuple[str, ...] = ()
    needs_files: bool = False
    runs_code: bool = False
    predicts: frozenset[Predicted] = ANY_NUMBER
    adapters: frozenset[AdapterKind] = frozenset()
    fuses_head: bool = False
    quantizes: bool = False
    has_row_state: bool = False
    divides_rows: bool = False

    @property
    def writes(self) -> bool:
        """Does it write texts, whatever they begin with?"""
        return self.writes_text or self.describes_images


@final
@dataclass(frozen=True, slots=True)
class BasePlace:
    """Where the files of a base lie on this machine, and whether that is the cache of the hub."""

    folder: str
    is_of_hub: bool


class ModelSection(Section):
    """Base of the sections of families: `kind`, traits, and what depends on the settings."""

    traits: ClassVar[Traits]

    kind: str

    @property
    def block_count(self) -> int:
        """Blocks whose activations can be recomputed; 0 without any."""
        return 0

    @property
    def context_length(self) -> int:
        """Tokens of a training row; 0 for a family that does not read tokens."""
        return 0

    @property
    def has_base(self) -> bool:
        """Does it start from the weights of another model of its kind?"""
        return False

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained, and not the base?"""
        return False

    @property
    def is_quantized(self) -> bool:
        """Is its base held in few bits?"""
        return False

    def without_adapter(self) -> Self:
        """The section of its base alone."""
        return self.model_copy(update={"adapter": "none"}) if self.has_adapter else self

    @property
    def scales_with_width(self) -> bool:
        """Do its learning rates follow its width?"""
        return False

    @property
    def base_weights(self) -> str:
        """SHA-256 of the weights of its base; empty without one, or before its files were read."""
        return ""

    @property
    def base_places(self) -> Mapping[str, BasePlace]:
        """Where the base of each of its adapters lies, by the name of the encoder; that of a model
        which is one encoder by the empty name. None before the files were read."""
        return {}

    @property
    def earlier_bundle(self) -> str:
        """The bundle of an earlier run that it starts from, on this machine; empty without one."""
        return ""

    @property
    def embedding_width(self) -> int:
        """Features of the embeddings that are compared; 0 for a model without."""
        return 0

    @property
    def has_own_tokens(self) -> bool:
        """Does it bring the tokens of captions?"""
        return False

    @property
    def is_loop_trained(self) -> bool:
        """Is it a network, trained step by step?"""
        return self.traits.trained_by == "loop"

    @property
    def is_selection(self) -> bool:
        """Is it one of several models?"""
        return self.traits.trained_by == "selection"

    @property
    def may_be_linear(self) -> bool:
        """May the fitted model equal the linear baseline?"""
        return self.traits.is_linear

    @property
    def bagging_folds(self) -> Literal["auto", "off"] | int:
        """Folds of training and validation rows together, a model each."""
        return "off"

    @property
    def stacks(self) -> bool:
        """Is a second level over several models allowed?"""
        return False

    @property
    def monotone_columns(self) -> Monotone:
        """Columns with a monotone constraint."""
        return {}

    @property
    def row_buckets(self) -> int:
        """Groups of similar length from which the rows of a step are drawn; 1 where rows have one
        length."""
        return 1

    def own_problems(self) -> Iterator[Problem]:
        """Contradictions among its own fields."""
        yield from ()

    def division_problems(self, tensor: int, pipeline: int) -> Iterator[Problem]:
        """Why its matrices cannot be divided over so many processes, or its blocks into so many
        stages."""
        field, ranks = ("tensor", tensor) if tensor > 1 else ("pipeline", pipeline)
        yield Problem(
            "this kind of model cannot be divided",
            path=f"distributed.{field}",
            found=f"{ranks}, and a model of kind {self.kind}",
            expected="1, or a model of kind gpt",
            fix=f"remove distributed.{field}",
        )
