"""From a contract's sampling and its training rows to the order of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.data.data_traits import (
    Balanced,
    Blocks,
    Curriculum,
    Mixture,
    Uniform,
    Weighted,
)
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.counter_rng import Permutation
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import quoted
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, chosen_positions
from trainwright.data.columns.row_weights import column_numbers
from trainwright.data.sampling.samplers import (
    BlockSampler,
    CurriculumSampler,
    GroupSampler,
    Pace,
    Sampler,
    WeightedSampler,
)
from trainwright.data.split.groups import Groups
from trainwright.data.types import Prepared

_PATH = "data.sampling"


def build_sampler(section: Data, prepared: Prepared, epochs: int, rows: int, seed: int) -> Sampler:
    """The order of the samples of a run; `rows` are those of an epoch, of a text its windows.

    Raises:
        DataMistake: a column does not hold what the sampling needs.
    """
    sampling, train, space = section.sampling, prepared.train, prepared.space
    match sampling:
        case Uniform():
            return Permutation(rows, seed, section.shuffle)
        case Balanced():
            return GroupSampler.balanced(train.target, seed, space)
        case Weighted():
            weights = _numbers(train.frame, sampling.column, "a weight", space)
            _check_weights(weights, sampling.column)
            return WeightedSampler(weights, seed, space)
        case Mixture():
            column = train.frame[sampling.column]
            names, codes = source_codes(column, "training row", space)
            return mixture_sampler(sampling, names, codes, seed, space)
        case Curriculum():
            difficulty = _numbers(train.frame, sampling.column, "a difficulty", space)
            if sampling.easiest == "highest":
                np.negative(difficulty, out=difficulty)
            samples = sampling.samples or round(sampling.ratio * epochs * rows)
            pace = Pace(sampling.start, samples, sampling.pacing)
            return CurriculumSampler(difficulty, pace, seed, space)
        case Blocks():
            return BlockSampler(rows, sampling.block_rows, sampling.mixed_blocks, seed)
        case _:
            assert_never(sampling)


def source_codes(
    column: pl.Series, what: str, space: RowStorage = IN_MEMORY
) -> tuple[list[str], Integers]:
    """The names of all sources, in ascending order, and the code of each row's.

    Raises:
        DataMistake: rows, each of which is called `what`, that name none.
    """
    sources = Groups.of([column], to_labels)
    codes = sources.codes(column, space)
    if missing := int(np.bincount(codes, minlength=1)[0]):
        raise DataMistake(
            Problem(
                f"{many(missing, what)} without a source",
                path=f"{_PATH}.column",
                found=f"missing values of {column.name}",
                fix="fill the column, or leave these rows out",
            )
        )
    for start, stop in bounds(len(codes)):
        codes[start:stop] -= 1
    return sources.names.to_list(), codes


def mixture_sampler(
    sampling: Mixture,
    names: Sequence[str],
    codes: Integers,
    seed: int,
    space: RowStorage = IN_MEMORY,
) -> Sampler:
    """Rows of the sources `names` in their shares; `codes` [N] says of which each row is.

    Raises:
        DataMistake: as `check_shares`.
    """
    if not sampling.weights:
        return GroupSampler.tempered(codes, sampling.temperature, seed, space)
    check_shares(sampling, names)
    return GroupSampler(codes, [sampling.weights[name] for name in names], seed, space)


def check_shares(sampling: Mixture, names: Sequence[str]) -> None:
    """Weights, where they are given, are those of the sources.

    Raises:
        DataMistake: a source has none, or a weight no source.
    """
    if sampling.weights and set(names) != set(sampling.weights):
        raise DataMistake(
            Problem(
                "the weights are not those of the sources",
                path=f"{_PATH}.weights",
                found=f"weights of {quoted(sorted(sampling.weights))}",
                expected=f"one of each source of the training rows: {quoted(names)}",
                fix="give every source a weight, and no other name",
            )
        )


def _numbers(frame: pl.DataFrame, column: str, what: str, space: RowStorage) -> Floats:
    series = frame[column]
    values = column_numbers(series, space)

    def strange(start: int, stop: int) -> npt.NDArray[np.bool_]:
        return ~np.isfinite(values[start:stop])

    wrong = chosen_positions(len(values), strange, space)
    if wrong.size:
        raise DataMistake(
            Problem(
                f"{many(wrong.size, 'training row')} without a number as {what}",
                path=f"{_PATH}.column",
                found=f"{series[int(wrong[0])]!r} in {column}",
                expected="a number in every row",
                fix="fill the column, or leave these rows out",
            )
        )
    return values


def _check_weights(weights: Floats, column: str) -> None:
    lowest, largest = float(weights.min()), float(weights.max())
    if lowest < 0 or largest <= 0:
        raise DataMistake(
            Problem(
                "weights are numbers from 0 on, not all of them 0",
                path=f"{_PATH}.column",
                found=f"{column} from {lowest:g} to {largest:g}",
                fix="mend the column, or name another",
            )
        )
