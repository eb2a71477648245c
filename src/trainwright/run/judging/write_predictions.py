"""`predictions.parquet`: predictions of the judged model for each test row."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import Data
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.core.files import read_json, storage_errors, write_atomic
from trainwright.data.base.inputs import Integers, Part
from trainwright.data.base.levels import Levels
from trainwright.data.columns.target import Target, target_from_json
from trainwright.data.formats.parquet_sizes import read_parquet
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.run.folder.check_own_files import check_own
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Scored test rows of a run. `rows` int64 [N] are positions in the source file, `units` int64
    [N] the unit of each row."""

    rows: Integers
    units: Integers
    answers: Answers
    target: Target


def write_predictions(scored: Scored, folder: RunFolder, data: Data) -> None:
    """Write row, unit, target, prediction and probabilities of each test row, its time if the
    contract splits by time, its fold if it has folds, in a ranking its query and its rank, of a
    pair its ranks in both directions, and series, origin, step and error scale of a forecast,
    of a text the bytes of its segments.

    Raises:
        StorageFailed: the file cannot be written; an older one is unchanged.
    """
    part, target, scores = scored.part, scored.target, np.asarray(scored.scores, np.float64)
    columns = [pl.Series("row", part.rows), pl.Series("unit", part.units), *_time(part, data)]
    if scored.folds is not None:
        columns.append(pl.Series("fold", scored.folds + 1))
    # For a text the target is a segment's tokens, the prediction its nats.
    predicted = target.predictions(scores)
    if scored.decided is not None:
        chosen = target.decisions(scored.decided)
        predicted[: len(chosen)] = chosen
    columns += [pl.Series(name, one) for name, one in part.inputs.levels.judged().items()]
    columns += [*target.truths(part.target), *predicted]
    if target.task == "retrieval":
        # Imported here: few runs match pairs.
        from trainwright.evaluation.metrics.retrieval import passage_columns, place_columns

        in_columns = passage_columns if target.is_one_way else place_columns
        columns += in_columns(scored.answers())
    if (queries := scored.queries) is not None:
        columns += [pl.Series("query", queries), *target.query_columns(part.frame, scores)]
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream, compression="zstd")
    with storage_errors(f"writing {folder.predictions}"):
        write_atomic(folder.predictions, stream.getvalue())


def _time(part: Part, data: Data) -> list[pl.Series]:
    name = data.time_column
    found = [part.frame[name].alias("time")] if name in part.frame.columns else []
    return [*found, *(part.frame[one].alias(to) for one, to in data.judged_columns)]


def read_predictions(folder: RunFolder) -> ScoredRows:
    """Inverse of `write_predictions`.

    Raises:
        Mistake: there are none, or they are damaged. StorageFailed: they do not belong to the run.
    """
    check_own(folder, folder.predictions.name)
    try:
        own = folder.own_target
        target = target_from_json(read_json(own if own.is_file() else folder.bundle / own.name))
        frame = read_parquet(folder.predictions)
        rows, units = (frame[name].to_numpy() for name in ("row", "unit"))
        return ScoredRows(rows, units, _answers(frame, target), target)
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError, DataMistake) as error:
        raise Mistake(
            Problem(
                f"run {folder.name} has no test predictions that can be read",
                found=f"{folder.predictions.name}: {str(error).splitlines()[0][:160]}",
                expected="the file that a run writes when it is judged",
                fix="train it again with this version",
            )
        ) from error


def _answers(frame: pl.DataFrame, target: Target) -> Answers:
    if target.task == "retrieval":
        from trainwright.evaluation.metrics.retrieval import answers_of_columns, answers_of_places

        return answers_of_columns(frame) if target.is_one_way else answers_of_places(frame)
    folds = frame["fold"].to_numpy() if "fold" in frame.columns else None
    truth, scores = target.stored(frame)
    queries = frame["query"].to_numpy() if "query" in frame.columns else None
    kept = {name for name in ("error_scale", "text_bytes") if name in frame.columns}
    answers = answers_of(
        truth,
        scores,
        target.positive_code,
        folds,
        queries=queries,
        quantiles=target.quantiles,
        levels=Levels(**{name: frame[name].to_numpy() for name in kept}),
        costs=target.costs,
    )
    if (chosen := target.stored_decisions(frame)) is None:
        return answers
    # Of costs the cheapest class would count without decisions, not the likeliest.
    is_argmax = np.array_equal(chosen, answers.chosen()) and not target.costs
    return answers if is_argmax else replace(answers, decided=chosen)
