"""`model` of kind `pretrained`: an encoder of transformers; and models of several encoders, any
of which may be one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from trainwright.contract.sections.model.adapter import LayerAdapter
from trainwright.contract.sections.model.traits import (
    EVERYTHING,
    BasePlace,
    ModelSection,
    TableDefaults,
    Traits,
)
from trainwright.contract.sections.section import Auto, Count, Section
from trainwright.core.errors import Problem
from trainwright.core.files import Json

_TOKENS = "the model reads tokens; terms are for the linear baseline"

_TRAITS = Traits(
    reads=("table", "images"),
    reads_files=False,
    has_blocks=True,
    files=("base",),
    needs_files=True,
    table=TableDefaults(reduce=("none", _TOKENS), terms=(20_000, _TOKENS)),
    adapters=frozenset({"lora", "rslora", "dora", "ia3"}),
    predicts=EVERYTHING,
    has_row_state=True,
)

_OF_CLASSES = ("id2label", "label2id")
"""Classes of a base, which may be called anything: record players too."""

_NOT_KNOWN = 1000
"""Most layers, before the configuration is read."""


class Base(Section):
    """What was found in the files of `architecture`. The plan fills it in, and a run goes on with
    the same files only."""

    reads: Literal["texts", "images", "tokens"] = "texts"
    """What the model reads."""

    config: str
    """`config.json`, as one line of JSON."""

    weights: str = ""
    """SHA-256 of the weights; of several files, of their hashes in the order of their names. Empty
    with `weights: none`."""

    tokenizer: str = ""
    """SHA-256 of the tokenizer; empty for a decoder without one, and for a model of images."""

    pad: Annotated[int, Field(ge=0)] = 0
    """Token behind the end of a text."""

    longest: Annotated[int, Field(ge=0)] = 0
    """The most tokens that the tokenizer and the positions of the model allow; 0 for a model of
    images."""

    image_size: tuple[Count, ...] = ()
    """Height and width of the images in pixels; empty where the base names none."""

    image_mean: tuple[float, ...] = ()
    """What is subtracted from each channel (0 to 255); empty where the base names none: the mean of
    the training images."""

    image_std: tuple[float, ...] = ()
    """What each channel is divided by then; empty where the base names none: the standard deviation
    of the training images."""

    licence: str = ""
    """Licence that the model card (`README.md`) states."""

    commit: str = ""
    """Commit of the hub's repository; empty for a folder."""

    folder: str = Field(default="", exclude=True)
    """Where the files lie on this machine; not part of the plan."""

    tokenizer_json: str = Field(default="", exclude=True, repr=False)
    """The tokenizer itself; not part of the plan."""

    @property
    def place(self) -> BasePlace:
        """Where its files lie."""
        return BasePlace(self.folder, bool(self.commit))


class DecoderOfBase(ModelSection):
    """A decoder that may start from a base; what was found in the files of that."""

    if TYPE_CHECKING:  # A field of each decoder.
        base: Literal["none"] | Base

    @property
    def base_weights(self) -> str:
        """SHA-256 of the weights of its base."""
        return "" if self.base == "none" else self.base.weights

    @property
    def base_places(self) -> Mapping[str, BasePlace]:
        """Where the files of its base lie on this machine."""
        return {} if self.base == "none" else {"": self.base.place}


class Pretrained(ModelSection):
    """A model of transformers with a head for classes or a number, fine-tuned on images, on one
    column of texts, or on a pair of them. Code that comes with a model is never run."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["pretrained"] = "pretrained"

    architecture: str
    """Folder with `config.json`, weights as safetensors and a tokenizer, for images a
    `preprocessor_config.json` instead, relative to the contract; or the name of a model of the hub,
    for example `bert-base-uncased` or `google/vit-base-patch16-224`. With HF_HUB_OFFLINE=1 only the
    local cache of the hub is read."""

    revision: str = "main"
    """Branch, tag or commit of a model of the hub."""

    num_labels: Auto | Annotated[int, Field(ge=1)] = "auto"
    """Outputs of the head. `auto`: the number of classes in the data, 1 for a number."""

    weights: Literal["pretrained", "none"] = "pretrained"
    """Initial weights: those of the base, with a new head if it has none for so many labels; or
    `none`, random ones, for which only the configuration and the tokenizer or
    `preprocessor_config.json` are read."""

    adapter: Literal["none"] | LayerAdapter = "none"
    """Weights that are trained beside the base, which is frozen; the head is trained too."""

    max_length: Auto | Annotated[int, Field(ge=3)] = "auto"
    """Most tokens of a row; longer ones are cut, and counted. `auto`: what the base allows, at most
    512. Of images there are none."""

    length_buckets: Count = 8
    """Groups of similar length from which the rows of a step are drawn, so that little is padded.
    1 draws them from all rows."""

    base: Auto | Base = "auto"
    """What was found in the files of `architecture`; the plan fills it in."""

    @property
    def row_buckets(self) -> int:
        """`length_buckets`."""
        return self.length_buckets

    @property
    def has_base(self) -> bool:
        """Does it start from the weights of another model?"""
        return self.weights == "pretrained"

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained, and not the base?"""
        return self.adapter != "none"

    @property
    def base_weights(self) -> str:
        """SHA-256 of the weights of its base."""
        return "" if self.base == "auto" else self.base.weights

    @property
    def base_places(self) -> Mapping[str, BasePlace]:
        """Where the files of its base lie on this machine."""
        return {} if self.base == "auto" else {"": self.base.place}

    def own_problems(self) -> Iterator[Problem]:
        """An adapter stands beside weights that exist."""
        if self.has_adapter and not self.has_base:
            yield baseless_adapter("model.weights", self.weights)

    @property
    def block_count(self) -> int:
        """Layers of the encoder: the largest number of layers that its configuration names, those
        of all stages together."""
        if self.base == "auto":
            return _NOT_KNOWN
        return count_layers_of(json.loads(self.base.config))


def baseless_adapter(path: str, found: str) -> Problem:
    """Problem of an adapter without weights of a base."""
    return Problem(
        "an adapter stands beside the weights of a base, which there are none of",
        path=path,
        found=found,
        expected="model.architecture with its weights",
        fix="remove adapter, or name a base",
    )


def count_layers_of(config: Json) -> int:
    """Layers that a configuration of transformers names, at least 1."""
    return max(_layer_counts(config), default=1)


def _layer_counts(config: Json) -> Iterator[int]:
    """Every whole number of a configuration whose name contains `layer`."""
    for name, value in config.items():
        if name in _OF_CLASSES:
            continue
        if isinstance(value, dict):
            yield from _layer_counts(value)
        elif "layer" in name and type(value) is int:
            yield value
        elif name == "depths" and isinstance(value, list):
            yield sum(one for one in value if type(one) is int)


class TowerSection(ModelSection):
    """A model of encoders whose embeddings are compared."""

    @property
    def bases(self) -> Mapping[str, Pretrained]:
        """Its encoders that are bases of transformers, by the key of each."""
        return {}

    @property
    def has_adapter(self) -> bool:
        """Is an adapter trained beside any of its bases?"""
        return any(one.has_adapter for one in self.bases.values())

    def without_adapter(self) -> Self:
        """The section of its bases alone."""
        alone = {name: one.without_adapter() for name, one in self.bases.items()}
        return self.model_copy(update=alone)

    @property
    def base_weights(self) -> str:
        """SHA-256 of the weights of its bases, in the order of its keys."""
        return "+".join(one.base_weights for one in self.bases.values())

    @property
    def base_places(self) -> Mapping[str, BasePlace]:
        """Those of the bases that have an adapter."""
        adapted = {name: one.base for name, one in self.bases.items() if one.has_adapter}
        return {name: base.place for name, base in adapted.items() if base != "auto"}
