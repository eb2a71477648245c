"""Families that a library fits, and the matrix that libraries of trees take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.lazy_imports import need_package
from trainwright.data.base.inputs import Floats, Inputs, Integers, Part, as_columns
from trainwright.model.family import Family, S, Scorer
from trainwright.model.tree_growth import Grown, Watching, weights_by_class, weights_of_rows

if TYPE_CHECKING:
    from trainwright.data.quality.finding import Finding


def tree_matrix(inputs: Inputs) -> Any:
    """Numeric columns, text terms, then category codes: float32 [N, F + T + G]; codes below 2**24
    stay exact.

    With terms it is sparse, and every number and code is stored, zeros too: for a library that
    takes what is not stored as missing, only the terms that a text lacks are.
    """
    columns = as_columns(inputs)
    codes = columns.categories.astype(np.float32)
    if not columns.terms.width:
        return np.concatenate([columns.numeric, codes], axis=1)
    from scipy.sparse import csr_array, hstack

    blocks = [_stored(columns.numeric), columns.terms.matrix(), _stored(codes)]
    return csr_array(hstack(blocks, format="csr"))


def _stored(dense: npt.NDArray[np.float32]) -> Any:
    from scipy.sparse import csr_array

    rows, width = dense.shape
    places = np.tile(np.arange(width), rows)
    ends = np.arange(rows + 1) * width
    return csr_array((dense.reshape(-1), places, ends), shape=dense.shape)


def numeric_width(inputs: Inputs) -> int:
    """Columns of `tree_matrix` before the codes."""
    columns = as_columns(inputs)
    return int(columns.numeric.shape[1] + columns.terms.width)


def _no_rows() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _no_value(_scores: Floats) -> float:
    raise AssertionError("only a ranking has queries")


def _same(relevance: Floats) -> Floats:
    return relevance


@final
@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of a part query by query: their positions `order` [N], and the rows of each query
    `sizes` [Q]. `value` is the contract's metric of scores [N] in this order."""

    order: Integers = field(default_factory=_no_rows)
    sizes: Integers = field(default_factory=_no_rows)
    value: Callable[[Floats], float] = _no_value

    @property
    def codes(self) -> Integers:
        """The query of each row in this order, ascending [N]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


@final
@dataclass(frozen=True, slots=True)
class RankingJob:
    """Queries of the training and validation rows, the metric that judges their order, and what a
    relevance is worth by it among the first `k` rows. Empty for other tasks."""

    train: QueryRows = field(default_factory=QueryRows)
    validation: QueryRows = field(default_factory=QueryRows)
    metric: str = ""
    gain: Callable[[Floats], Floats] = _same
    k: Literal["all"] | int = "all"

    def __bool__(self) -> bool:
        return bool(self.metric)

    @property
    def watched(self) -> str:
        """What decides the number of trees, of which less is better."""
        return f"1-{self.metric}"

    def loss(self, scores: Floats, *, of_training: bool) -> float:
        """1 - the metric, of training or validation rows query by query."""
        rows = self.train if of_training else self.validation
        return 1.0 - rows.value(np.asarray(scores, np.float64))


def rows_by_query(codes: Integers, value: Callable[[Floats, Integers], float]) -> QueryRows:
    """Rows with the codes [N] of their queries; `value` takes scores and the positions of their
    rows."""
    order = np.argsort(codes, kind="stable")
    sizes = np.unique(codes, return_counts=True)[1].astype(np.int64)
    return QueryRows(order, sizes, lambda scores: value(scores, order))


NO_RANKING = RankingJob()


@final
@dataclass(frozen=True, slots=True)
class RowShare:
    """Which of the rows this process trains on: those of `rank`, of `ranks` processes that grow the
    same trees and meet at the `tracker` of the library."""

    rank: int = 0
    ranks: int = 1
    tracker: Mapping[str, Json] = field(default_factory=dict)

    def divide(self, rows: int, sizes: Integers) -> slice:
        """Its part of so many rows: contiguous, and of whole queries with these `sizes` [Q], if
        there are any."""
        ends = [rows * rank // self.ranks for rank in (self.rank, self.rank + 1)]
        if len(sizes):
            of_queries = np.concatenate([[0], np.cumsum(sizes)])
            ends = of_queries[np.searchsorted(of_queries, ends)].tolist()
        return slice(*ends)


ALL_ROWS = RowShare()


@final
@dataclass(frozen=True, slots=True)
class LibraryJob:
    """Inputs of a fit. `outputs` is the number of classes, 1 for a number, or the number of several
    targets, whose values in the parts are [N, T]; `cardinalities` are
    those of a table's categorical columns. `metric` judges the model; `quantile` is its own. With
    `is_count` the target is a count, and scores are rates above 0; with `quantiles` they are these
    quantiles [N, K].
    `monotone` is the sign, 1 or -1, of each number with a constraint, by its place among the
    numeric columns: of values, or of the second of two classes. `ranking` are the queries of a
    ranking. `rounds` are those of each of several targets, where an earlier training has found
    them. `threads` 0 are all usable cores. `share` are the rows of this process, if others train on
    the rest."""

    train: Part
    validation: Part
    outputs: int
    cardinalities: tuple[int, ...]
    seed: int
    metric: str
    quantile: float
    is_count: bool = False
    quantiles: tuple[float, ...] = ()
    monotone: Mapping[int, int] = field(default_factory=dict)
    ranking: RankingJob = NO_RANKING
    rounds: tuple[int, ...] = ()
    threads: int = 0
    share: RowShare = ALL_ROWS

    @property
    def are_several(self) -> bool:
        """Are several targets learned?"""
        return self.train.target.ndim == 2

    @property
    def are_labels(self) -> bool:
        """Are several labels learned?"""
        return self.are_several and self.train.target.dtype.kind == "i"

    def of_target(self, at: int) -> LibraryJob:
        """That of one of several targets; of a label as two classes."""
        return replace(
            self,
            train=replace(self.train, target=self.train.target[:, at]),
            validation=replace(self.validation, target=self.validation.target[:, at]),
            outputs=2 if self.are_labels else 1,
        )

    def class_weights(self, class_weights: str) -> Floats | None:
        """As `weights_by_class`, of the training rows."""
        train = self.train
        return weights_by_class(class_weights, train.target, self.outputs, train.weights)

    def row_weights(self, class_weights: str) -> Floats | None:
        """Weight of each training row, its class counted in; None if the rows have none of their
        own, so that a library may weigh classes itself."""
        train = self.train
        if not len(train.weights):
            return None
        if self.are_several:
            return train.weights
        return weights_of_rows(self.class_weights(class_weights), train.target, train.weights)

    def monotone_signs(self) -> list[int]:
        """The sign of each number, term and code of a row; 0 without a constraint."""

        width = numeric_width(self.train.inputs) + len(self.cardinalities)
        return [self.monotone.get(at, 0) for at in range(width)]


@final
@dataclass(frozen=True, slots=True)
class LibraryFit:
    """A fitted model, why the fit ended, and its warnings; `trees` if it grew some, `rounds` those
    of each of several targets. `history` are the validations: the step (of trees their
    number) and the values by name."""

    scorer: Scorer
    reason: str
    warnings: tuple[str, ...] = ()
    trees: int = 0
    history: Sequence[Mapping[str, float]] = ()
    rounds: tuple[int, ...] = ()


class LibraryFamily(Family[S]):
    """Models that a library fits. Methods may import the library; the module of a family does not.

    `scorer_kind` is the `kind` of its scorers and of their bundles, `bundle_files` what they write.
    `extra` is the extra of the installation that brings the `package` it imports; empty if every
    installation has it.
    """

    scorer_kind: ClassVar[str]
    bundle_files: ClassVar[tuple[str, ...]]
    scores_by_rows: ClassVar[bool] = False
    """Does a row take longer to score, the more rows were trained on?"""

    extra: ClassVar[str] = ""
    package: ClassVar[str] = ""

    def need_library(self, path: str, what: str) -> None:
        """Raise `MissingExtra`, with the install command, if the library is not installed. `path`
        is the contract path that asks for it, `what` the feature."""
        if self.extra:
            need_package(self.package, self.extra, path, what)

    def shortened(self, section: S, share: float) -> Sequence[S]:  # noqa: ARG002
        """The section of a fit that takes about this share of the time; none if it cannot be cut,
        or nothing sound would be left."""
        return ()

    @abstractmethod
    def describe(self, section: S) -> str:
        """The settings of a plan that matter most, in a few words."""

    @abstractmethod
    def fit(self, section: S, job: LibraryJob) -> LibraryFit:
        """Fit to the training rows; validation rows may decide when to end."""

    @abstractmethod
    def read(self, folder: Path) -> Scorer:
        """Read what a scorer wrote; the caller has verified the files.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """

    def rehearsal(self, section: S) -> tuple[S, float]:
        """Settings of a shorter fit whose time tells that of the whole, and how many times as long
        the whole takes."""
        return section, 1.0

    def start_tracker(self, ranks: int, address: str) -> AbstractContextManager[Mapping[str, Json]]:  # noqa: ARG002
        """Where so many processes meet, inside the block, that each fit to a part of the rows; it
        listens at this address of the machine, a name or an IP address."""
        raise AssertionError("only some libraries divide rows: `Traits.divides_rows`")

    def target_problems(self, section: S, target: npt.NDArray[Any]) -> Iterator[Problem]:  # noqa: ARG002
        """Settings that the targets of the training rows contradict."""
        yield from ()

    def size_problems(
        self,
        section: S,  # noqa: ARG002
        train: Part,  # noqa: ARG002
        cardinalities: tuple[int, ...],  # noqa: ARG002
    ) -> Iterator[Problem]:
        """Training rows that are too many for their encoded columns."""
        yield from ()

    def findings(self, section: S, rows: int, *, is_fold: bool) -> Iterator[Finding]:  # noqa: ARG002
        """Warnings before a training on so many rows; those of the smallest fold if `is_fold`."""
        yield from ()


class TreeFamily(LibraryFamily[S]):
    """Trees that grow in rounds.

    A family that hands its trees to the keeper of `Watching` continues from them; one that does not
    starts again when it is resumed, and ends with the same trees.
    """

    threads_change_bits: ClassVar[bool] = False
    """Of the validation values that decide how many rounds there are; of the trees never."""

    @abstractmethod
    def most_rounds(self, section: S) -> int:
        """Rounds that end the growth."""

    @abstractmethod
    def patience(self, section: S) -> int:
        """Rounds without a better validation value that end the growth."""

    @abstractmethod
    def watched(self, section: S, job: LibraryJob) -> str:
        """The validation metric that decides the number of rounds; less is better."""

    @abstractmethod
    def grow(self, section: S, job: LibraryJob, watching: Watching, before: Grown) -> LibraryFit:
        """Grow trees, continuing from `before` as if never interrupted.

        Raises:
            OtherTrees: the earlier trees cannot be continued to the same trees.
        """

    def read_grown(self, values: Json, outputs: int) -> Grown:  # noqa: ARG002
        """Inverse of `Grown.to_json`, with the text checked before the library reads it.

        Raises:
            ValueError, TypeError, KeyError: invalid content.
        """
        raise ValueError("this kind of model keeps no trees")

    @abstractmethod
    def environment(self) -> Mapping[str, Json]:
        """What of the machine decides the last bits: versions, threads."""
