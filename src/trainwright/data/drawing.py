"""From a contract's sampling and its training rows to the order of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import polars as pl

from trainwright.contract.data import Data
from trainwright.contract.sampling import Balanced, Curriculum, Mixture, Uniform, Weighted
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.draws import CurriculumDraws, Draws, GroupDraws, Pace, WeightedDraws
from trainwright.data.order import Order
from trainwright.data.table import Floats, Integers, Part
from trainwright.data.values import to_labels, to_numbers
from trainwright.data.wording import quoted

_PATH = "data.sampling"


def build_draws(section: Data, train: Part, epochs: int, rows: int, seed: int) -> Draws:
    """The order of the samples of a run; `rows` are those of an epoch, of a text its windows.

    Raises:
        DataMistake: a column does not hold what the sampling needs.
    """
    sampling = section.sampling
    match sampling:
        case Uniform():
            return Order(rows, seed, section.shuffle)
        case Balanced():
            return GroupDraws.balanced(train.target, seed)
        case Weighted():
            weights = _numbers(train.frame, sampling.column, "a weight")
            _check_weights(weights, sampling.column)
            return WeightedDraws(weights, seed)
        case Mixture():
            names, codes = source_codes(to_labels(train.frame[sampling.column]), "training rows")
            return mixture_draws(sampling, names, codes, seed)
        case Curriculum():
            difficulty = _numbers(train.frame, sampling.column, "a difficulty")
            sign = 1.0 if sampling.easiest == "lowest" else -1.0
            samples = sampling.samples or round(sampling.ratio * epochs * rows)
            pace = Pace(sampling.start, samples, sampling.pacing)
            return CurriculumDraws(sign * difficulty, pace, seed)
        case _:
            assert_never(sampling)


def source_codes(labels: pl.Series, what: str) -> tuple[list[str], Integers]:
    """The names of all sources, in ascending order, and the code of each row's.

    Raises:
        DataMistake: rows, which are called `what`, that name none.
    """
    if missing := labels.null_count():
        raise DataMistake(
            Problem(
                f"{missing} {what} have no source",
                path=f"{_PATH}.column",
                found=f"missing values of {labels.name}",
                fix="fill the column, or leave these rows out",
            )
        )
    names = labels.unique().sort().to_list()
    codes = labels.replace_strict(names, list(range(len(names))), return_dtype=pl.Int64)
    return names, codes.to_numpy()


def mixture_draws(sampling: Mixture, names: Sequence[str], codes: Integers, seed: int) -> Draws:
    """Rows of the sources `names` in their shares; `codes` [N] says of which each row is.

    Raises:
        DataMistake: as `check_shares`.
    """
    if not sampling.weights:
        return GroupDraws.tempered(codes, sampling.temperature, seed)
    check_shares(sampling, names)
    return GroupDraws(codes, [sampling.weights[name] for name in names], seed)


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


def _numbers(frame: pl.DataFrame, column: str, what: str) -> Floats:
    values = to_numbers(frame[column]).series.cast(pl.Float64).to_numpy()
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise DataMistake(
            Problem(
                f"{wrong.size} training rows have no number as {what}",
                path=f"{_PATH}.column",
                found=f"{frame[column][int(wrong[0])]!r} in {column}",
                expected="a number in every row",
                fix="fill the column, or leave these rows out",
            )
        )
    return values


def _check_weights(weights: Floats, column: str) -> None:
    lowest, total = float(weights.min()), float(weights.sum())
    if lowest < 0 or total <= 0:
        raise DataMistake(
            Problem(
                "weights are numbers from 0 on, not all of them 0",
                path=f"{_PATH}.column",
                found=f"{column} from {lowest:g} to {float(weights.max()):g}",
                fix="mend the column, or name another",
            )
        )
