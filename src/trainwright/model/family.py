"""Families of models: what planner, predictor and run ask of one, and the scorers that they fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, final, runtime_checkable

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.text_tokenizer import NO_TOKENIZER, TextTokenizer
from trainwright.model.input_shape import Shape

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainwright.model.count_network import NetworkCounts, PartSizes

S = TypeVar("S", bound=ModelSection)
MemoryFormat = Literal["contiguous", "channels_last"]


class Scorer(Protocol):
    """Fitted model without its features.

    Implementations return finite scores for any inputs of the shape they were fitted on, 0 rows
    included, and the same scores for the same rows regardless of the other rows and of earlier
    calls. `testing/scorer_conformance.py` checks this.
    """

    @property
    def kind(self) -> str:
        """One of `predictor.bundle.bundle_kinds`: it decides who reads its files."""
        ...

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] (C = 2 for two classes), values [N, 1] in the target's own
        unit, or of a text the negative log-likelihood (nats) of each segment, [N, 1]."""
        ...

    def write(self, folder: Path) -> None:
        """Write its own files into an existing folder; none of them is a pickle."""
        ...


@runtime_checkable
class AttributingScorer(Protocol):
    """A scorer whose library says what each input adds to a score."""

    def contributions(self, inputs: Inputs) -> Floats:
        """SHAP values [N, K, M + 1] of the M columns of the inputs (numbers, terms, codes) for the
        K raw outputs, and last the expected output, to which they add up: the log-odds of the
        second of two classes, the raw score of each of several, or a value before the objective's
        link."""
        ...


@final
@dataclass(frozen=True, slots=True)
class LearningTask:
    """What is learned: the task, the metric that judges it, the number of classes (0 for a number),
    whether a column is a text, of a table the kind of each feature column by its name, the
    quantiles that are predicted of a number, none for one value, whether several documents stand in
    a window of a text, the number of targets or labels, whether the loss is computed from what the
    head reads, and the training rows."""

    task: str
    metric: str
    classes: int
    has_texts: bool
    columns: Mapping[str, str] = field(default_factory=dict)
    quantiles: tuple[float, ...] = ()
    is_packed: bool = False
    targets: int = 1
    fuses_head: bool = False
    rows: int = 0


@final
@dataclass(frozen=True, slots=True)
class LearnedNumber:
    """What is learned of a number: its mean, the rate of a count, or quantiles."""

    rates: bool = False
    quantiles: tuple[float, ...] = ()


MEAN = LearnedNumber()


class Family(ABC, Generic[S]):
    """A kind of model. `S` is its section of the contract."""

    def choices(self, section: S, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """What the fields that say `auto` stand for, each with its reason."""
        return {}

    def read_files(self, section: S, folder: Path, form: str = "table") -> S:  # noqa: ARG002
        """The section with what it takes from files, named relative to `folder`, for data of a
        `form`.

        Raises:
            Mistake: they are not there, or cannot be used. MissingExtra: what reads them is not
                installed.
        """
        return section

    def tokenizer(self, section: S) -> TextTokenizer:  # noqa: ARG002
        """What a resolved section reads texts by; none for a model of columns."""
        return NO_TOKENIZER

    def image_size(self, section: S) -> tuple[int, ...]:  # noqa: ARG002
        """Height and width of the images that a resolved section reads; () for any size."""
        return ()

    def remarks(self, section: S) -> tuple[str, ...]:  # noqa: ARG002
        """What a person should know of what was found in the files of the model."""
        return ()

    def usual_training(self, section: S) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """What `auto` of `training.batch_size`, `training.num_epochs` and the learning rate of Adam
        and AdamW stands for, each with its reason, where a family has its own."""
        return {}

    def problems(self, section: S, task: LearningTask) -> Iterator[Problem]:  # noqa: ARG002
        """Settings of a resolved section that contradict the task."""
        yield from ()

    def encoding_problems(self, section: S, encoding: Encoding) -> Iterator[Problem]:  # noqa: ARG002
        """Settings of a resolved section that contradict how the rows are encoded."""
        yield from ()


@final
@dataclass(frozen=True, slots=True)
class HubLayout:
    """`config.json` of a model of transformers, its weights by name, and what is to be known."""

    config: Mapping[str, Json]
    weights: Mapping[str, Tensor]
    doubt: str = ""


@final
class UndecidedFamily(Family[ModelSection]):
    """Of a section that stands for several families: nothing is decided before one is chosen."""


class NetworkFamily(Family[S]):
    """Networks, trained step by step. Methods that return a network or its parts need torch.

    Counts are those of the network that `build` gives, on meta tensors (`count_network`). A family
    may count by arithmetic: the first operation on a meta tensor makes torch import for a second.
    """

    scorer_kind: str = "network"
    """The kind of its bundles."""

    weights_file: str = "network.safetensors"
    """Weights in a bundle."""

    def bundle_kind(self, shape: Shape) -> str:  # noqa: ARG002
        """The kind of a bundle for data of this shape."""
        return self.scorer_kind

    @abstractmethod
    def build(self, section: S, shape: Shape) -> nn.Module:
        """Network for data of this shape; its initial weights are drawn from torch's global
        generator."""

    def build_empty(self, section: S, shape: Shape) -> nn.Module:
        """As `build`, for weights that are read into it afterwards."""
        return self.build(section, shape)

    def build_of_bundle(self, section: S, shape: Shape) -> nn.Module:
        """As `build_empty`; a base beside an adapter, which no bundle holds, has its weights."""
        return (self.build if section.has_adapter else self.build_empty)(section, shape)

    def own_objective(self, section: S) -> Literal["usual"] | Callable[[Any, Any], Any]:  # noqa: ARG002
        """The training loss of a family that has one of its own, a function of model and batch."""
        return "usual"

    @abstractmethod
    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Blocks from first to last, as in `InBlocks`; none for a network without."""

    def head(self, network: nn.Module) -> nn.Linear | None:  # noqa: ARG002
        """The layer that gives the outputs of a row and reads one vector of it, its hidden state;
        None where there is none."""
        return None

    def count_logits(self, _section: S, _shape: Shape, /) -> int:
        """Numbers of a row that only a separate head keeps: logits and their gradient."""
        return 0

    def width_factors(self, _section: S, _network: nn.Module, /) -> Mapping[nn.Parameter, float]:
        """Factors on the learning rate that follow from the width; 1 where there is none."""
        return {}

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:  # noqa: ARG002
        """Parameters without weight decay beside biases, norms and embeddings of torch."""
        return ()

    def lay_out(self, network: nn.Module, memory_format: MemoryFormat) -> None:
        """Set the memory layout of convolutions; other networks have one layout only."""

    def describe_files(
        self,
        network: nn.Module,  # noqa: ARG002
        shape: Shape,  # noqa: ARG002
        target: Target,  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Json]]:
        """JSON files that a bundle of the network for data of this shape and a target has beside
        its weights, by name."""
        return {}

    def hub_layout(self, section: S, network: nn.Module) -> HubLayout | None:  # noqa: ARG002
        """The network in the layout of transformers; None where a family has none.

        Raises:
            Mistake: no architecture of transformers has its shape.
        """
        return None

    def base_names(self, section: S, network: nn.Module) -> frozenset[str]:
        """Parameters that an adapter leaves as the files of the base hold them; none without an
        adapter."""
        if not section.has_adapter:
            return frozenset()
        from trainwright.model.adapters.inject_adapter import adapter_names

        every = frozenset(name for name, _ in network.named_parameters(remove_duplicate=False))
        return every - adapter_names(network) - self.head_names(network)

    def with_base(self, section: S, recorded: Mapping[str, str]) -> S:  # noqa: ARG002
        """A section of a bundle that holds adapters alone, with the files of their bases: those of
        the `recorded` folders, by the names of `base_places`, or of others that have them.

        Raises:
            Mistake: they are not on this machine, or are those of another base.
        """
        return section

    def few_targets(self, section: S) -> tuple[str, ...]:  # noqa: ARG002
        """A usual part of the layers that an adapter can adapt; none where none is usual."""
        return ()

    def unmerge(self, network: nn.Module) -> None:
        """Take the adapter out of a network, which then computes what its base does."""
        from trainwright.model.adapters.merge_adapter import unmerge_adapter

        unmerge_adapter(network)

    def head_names(self, network: nn.Module) -> frozenset[str]:  # noqa: ARG002
        """Parameters that are trained whole beside an adapter: those of a new head."""
        return frozenset()

    @abstractmethod
    def count_layers(self, section: S) -> int:
        """Layers or blocks of the network."""

    def count_parameters(self, section: S, shape: Shape) -> int:
        """Trainable parameters; a tied one counts once."""
        return self._counts(section, shape).parameters

    def count_largest(self, section: S, shape: Shape) -> int:
        """Elements of the largest trainable tensor."""
        return self._counts(section, shape).largest

    def count_parts(self, section: S, shape: Shape) -> PartSizes:
        """Parameters of each block and of the rest, those of a frozen base included."""
        from trainwright.model.count_network import count_parts

        return count_parts(self, section, shape)

    def count_frozen(self, section: S, shape: Shape) -> int:
        """Parameters of the base beside an adapter, which are not trained; 0 without one."""
        return self._counts(section, shape).frozen if section.has_adapter else 0

    def frozen_bytes(self, section: S, shape: Shape) -> int:
        """Memory of the base beside an adapter, in bytes."""
        return 4 * self.count_frozen(section, shape)

    def count_products(self, section: S, shape: Shape) -> int:
        """Multiply-accumulates in the matrix products and convolutions of the forward pass of one
        row; of a text, of a window of the whole context. Training takes three times as many."""
        return self._counts(section, shape).products

    def count_activations(self, section: S, shape: Shape) -> int:
        """Numbers that the forward pass of one row keeps for the backward pass, outputs and loss
        included."""
        return self._counts(section, shape).activations

    def _counts(self, section: S, shape: Shape) -> NetworkCounts:
        from trainwright.model.count_network import count_network

        return count_network(self, section, shape)
