"""What a kind of data answers from its files to its inputs."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar, final

import polars as pl

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.metric import TaskKind
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.base.inputs import Bytes, Inputs, Part
from trainwright.data.base.messages import nearest_option, quoted
from trainwright.data.columns.class_target import PROBABILITY
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.text_tokenizer import NO_TEXTS, TextReading
from trainwright.data.quality.finding import Finding, Subset
from trainwright.data.read_table import Raw
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.types import Prepared

if TYPE_CHECKING:
    from trainwright.data.base.pair_inputs import OneSide, WantedSide
    from trainwright.data.quality.run_checks import Effort

S = TypeVar("S", bound=Feeding)
R = TypeVar("R", bound=Raw)


@final
@dataclass(frozen=True, slots=True)
class SplitSettings(Generic[S]):
    """How raw data is split and encoded: the resolved section, the task, the seed, and the
    tokenizer of texts."""

    section: S
    task: TaskKind
    seed: int
    texts: TextReading = NO_TEXTS


class LookLimits(NamedTuple):
    """How much of the data is looked at, and for what."""

    rows: Literal["all"] | int = "all"
    subset: Subset = "all"


@final
@dataclass(frozen=True, slots=True)
class LookedAt:
    """Findings of the leakage audit and of the quality checks, and the rows that each saw."""

    audited: tuple[AuditResult, ...]
    faults: tuple[Finding, ...]
    sample: Mapping[str, int]


@final
@dataclass(frozen=True, slots=True)
class NewPart:
    """Labelled new rows as a part, and their files. `ungrouped` names the groups of the training
    that these rows lack; `notes` say what was skipped or excluded."""

    part: Part
    files: Sequence[FileVersion]
    ungrouped: str = ""
    notes: Sequence[str] = ()


@final
@dataclass(frozen=True, slots=True)
class NewFile:
    """Rows to predict, in the form that a predictor reads, the columns that are written before the
    predictions, and what is said of the rows."""

    rows: pl.DataFrame | Bytes
    before: pl.DataFrame
    notes: Sequence[str] = ()


class NewFiles(NamedTuple):
    """Words of a command line: a file that is there to `predict`, the placeholder of another one,
    and that of a labelled one. Empty where nothing can be predicted."""

    at_hand: str
    rows: str
    labelled: str


class Modality(ABC, Generic[S, R]):
    """A kind of data: how it is read, split, encoded and checked, and how new rows are read."""

    section: type[S]
    """Its part of the contract."""

    is_sampled: bool = False
    """Can fewer rows be checked, where all would take too long?"""

    @abstractmethod
    def read(
        self,
        section: S,
        folder: Path,
        frames: Mapping[str, Frame] = NO_FRAMES,
        most_rows: int = sys.maxsize,
    ) -> R:
        """All data of the section: files relative to `folder`, and frames by name. Of rows that
        must be decoded one by one, at most `most_rows` are.

        Raises:
            DataMistake: with every problem that could be found at once.
            MissingExtra: a package that reads a source is not installed.
        """

    @abstractmethod
    def prepare(self, raw: R, split: SplitSettings[S]) -> Prepared:
        """Split and encoded. Every `auto` of the section is decided. Nothing is fitted on
        validation or test rows.

        Raises:
            DataMistake: the rows cannot be split as asked.
        """

    def tokenize(
        self, section: S, _folder: Path, _target: Path, _tell: Callable[[str], None], /
    ) -> dict[str, Json]:
        """Write the tokens of a text to a file, and a manifest beside it; the manifest.

        Raises:
            Mistake: this kind of data is no text.
        """
        raise Mistake(
            Problem(
                "only a text is tokenized beforehand",
                path="data.kind",
                found=section.kind,
                expected="tokens",
                fix="train from the data itself: what is read is kept in its cache",
            )
        )

    def prepare_fold(self, _raw: R, split: SplitSettings[S], _number: int, /) -> Prepared:
        """Data of the training that tests a fold, counted from 0, where it can be cut into folds.

        Raises:
            As `prepare`, which raises every mistake first.
        """
        raise AssertionError(f"{type(split.section).__name__} has no folds")

    def prepare_refit(self, _raw: R, split: SplitSettings[S], /) -> Prepared:
        """Data of a training on training and validation rows, without validation rows, where the
        trait `can_refit` says that they can join.

        Raises:
            As `prepare`, which raises every mistake first.
        """
        raise AssertionError(f"{type(split.section).__name__} is trained once")

    def rows_as_given(self, raw: R, part: Part, /) -> Iterator[pl.DataFrame | Bytes]:
        """The rows of a part as a predictor of another contract reads them, in blocks, where the
        trait `can_be_taught` says that there are such models."""
        raise AssertionError(f"{type(raw).__name__} of {part.name} are scored by no other model")

    def part_as_read(
        self, _raw: R, _part: Part, _features: Encoding, _target: Target, /
    ) -> Part | None:
        """A part of this data with its targets as the model of another contract reads it; None
        where rows of two contracts cannot be compared.

        Raises:
            DataMistake: that model cannot read them.
        """
        return None

    def after_split(self, raw: R, _section: S, /) -> R:
        """The same without what only the split needed, which a training cannot afford to keep."""
        return raw

    def keep_rows(self, _raw: R, _section: S, _name: str, _folder: Path, /) -> None:
        """Write what a comparison of data needs of the rows once their files are overwritten.

        Raises:
            StorageFailed: the disk.
        """

    def left_to_models(self, _raw: R, _section: S, /) -> tuple[str, ...]:
        """The checks that fit models on many rows, which a training makes itself."""
        return ()

    @abstractmethod
    def look(
        self, raw: R, prepared: Prepared, split: SplitSettings[S], folder: Path, limits: LookLimits
    ) -> LookedAt:
        """Findings of prepared data. `folder` is the contract's."""

    @abstractmethod
    def check(
        self,
        section: S,
        folder: Path,
        split: Callable[[R], SplitSettings[S]],
        seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Findings of all files of a section, split as it says where that is possible; `tell` is
        called with the reason where it is not. `split` decides every `auto`; `seed` is that of the
        split.

        Raises:
            Mistake: in a file as a whole; problems of single columns are findings.
        """

    @abstractmethod
    def read_labelled(
        self, data: str, features: Encoding, target: Target, section: S, reading: Reading
    ) -> NewPart:
        """New rows with their targets, for an evaluation.

        Raises:
            DataMistake: they cannot be read, or are not like those of the training.
        """

    def read_unlabelled(
        self, data: str, _features: Encoding, _section: S, reading: Reading, keep: Sequence[str], /
    ) -> NewFile:
        """Rows to predict, in order, with the columns to keep: of a file of any form that a table
        may have.

        Raises:
            Mistake: they cannot be read, or lack a column.
        """
        rows = read_source(data, Path(), "INPUT", reading).frame
        return NewFile(rows, kept_columns(rows, keep))

    def read_side(self, data: str, _features: Encoding, section: S, _wanted: WantedSide) -> OneSide:
        """Images or texts of a file that a retrieval compares, the `wanted` ones where it has both.

        Raises:
            DataMistake: it holds none, or they cannot be read.
        """
        raise AssertionError(f"{type(section).__name__} of {data} are in no retrieval")

    def read_texts(self, texts: Sequence[str], _features: Encoding, /) -> Inputs:
        """Texts that a retrieval compares."""
        raise AssertionError(f"{len(texts)} texts are in no retrieval")

    def names_of_files(self, _section: S, _folder: Path, /) -> NewFiles:
        """What a person gives to `predict` and `evaluate`."""
        return NewFiles("", "", "DATA")


def kept_columns(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Columns to keep, renamed if they collide with a prediction column.

    Raises:
        Mistake: the file lacks one, or two would be called the same.
    """
    if missing := [name for name in names if name not in rows.columns]:
        near = nearest_option(missing[0], rows.columns)
        raise Mistake(
            Problem(
                f"the file has no column {missing[0]!r} to keep",
                path="--keep",
                expected=quoted(rows.columns, 10),
                fix=f"did you mean {near!r}?" if near else "name a column of the file",
            )
        )
    kept = {name: f"input_{name}" if _is_ours(name) else name for name in dict.fromkeys(names)}
    if len(set(kept.values())) < len(kept):
        raise Mistake(
            Problem(
                "two kept columns would have one name beside the predictions",
                path="--keep",
                found=quoted(kept),
                fix="keep one of them, or rename a column of the file",
            )
        )
    return rows.select(list(kept)).rename(kept)


def _is_ours(name: str) -> bool:
    return name == "prediction" or name.startswith(PROBABILITY)
