"""Baselines of every model: a dummy and a linear model, and beside images a linear model of their
colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import final

import numpy as np

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model.linear import Linear
from trainwright.data.base.inputs import (
    Floats,
    ImageInputs,
    Integers,
    Part,
    TableInputs,
    as_columns,
)
from trainwright.data.base.row_storage import IN_MEMORY, spread_rows, taken
from trainwright.data.encoders.table_encoder import TableEncoder, TrainRows, fit_features
from trainwright.data.encoders.target_encoding import train_target
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import BM25, COLOURS, DUMMY, LINEAR
from trainwright.model.baselines.dummy import fit_constant
from trainwright.model.family import LearnedNumber
from trainwright.model.linear.linear_fit import fit_linear
from trainwright.predictor.predictor import Predictor

_LINEAR = Linear(kind="linear", penalty=1.0, max_iterations=300)
_LINEAR_OF_TEXTS = Linear(kind="linear", penalty=0.1, max_iterations=300)
_LINEAR_OF_COLUMNS = Linear(kind="linear", penalty=1.0, max_iterations=60)
_MOST_SEEN = 20_000
_FEWEST_SEEN = 500
_MOST_VALUES = 2**26
_MANY_ROWS, _ROWS_SEEN = 500_000, 200_000
_TERMS = {"reduce": "none", "terms": 20_000}
"""The linear baseline encodes a text by its terms, whatever the model does."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """The fitted baselines, `others` by name.

    `shares` is the contribution of each encoded column to the linear baseline on the training rows
    (summing to 1). `warnings` come from fitting it.
    """

    dummy: Predictor
    linear: Predictor
    shares: Mapping[str, float]
    warnings: tuple[str, ...]
    others: Mapping[str, Predictor] = field(default_factory=dict)

    @property
    def by_name(self) -> dict[str, Predictor]:
        """All of them."""
        return {DUMMY: self.dummy, LINEAR: self.linear, **self.others}

    def scores(self, part: Part) -> dict[str, Floats]:
        """Scores of each for a part: [N, C] or [N, 1]."""
        return {name: predictor.score_part(part) for name, predictor in self.by_name.items()}


def fit_baselines(
    prepared: Prepared, data: Feeding | None = None, most_rows: float = math.inf
) -> Baselines:
    """Fit both on the training part; `data` is the section, for the features of a table. The linear
    one is fitted on at most `most_rows` rows or images, with a warning; a text is counted in
    full."""
    how = BASELINES.get(prepared.features.modality, USUAL_BASELINES)
    return how.fit(prepared, data or TableData(), most_rows)


def seen_rows(prepared: Prepared) -> int:
    """Training rows of the linear baseline without a limit; 0 for a text, which is counted."""
    return BASELINES.get(prepared.features.modality, USUAL_BASELINES).seen_rows(prepared)


def _seen_columns(prepared: Prepared) -> int:
    train = prepared.train
    width = sum(math.prod(one.shape[1:]) for one in train.inputs.arrays(0, 1).values())
    fit = max(_FEWEST_SEEN, _MOST_VALUES // max(1, width))
    return min(len(train), _MOST_SEEN, fit)


def _seen_of_table(prepared: Prepared) -> int:
    return _ROWS_SEEN if len(prepared.train) > _MANY_ROWS else len(prepared.train)


def _of_columns(prepared: Prepared, _data: Feeding, most_rows: float) -> Baselines:
    """The linear baseline uses the columns of at most 20,000 evenly spaced rows, fewer if they are
    wide: of images, pixels in [0, 1]."""
    train, target, features = prepared.train, prepared.target, prepared.features
    most = _seen_columns(prepared)
    warnings: tuple[str, ...] = ()
    if most_rows < most:
        most = int(most_rows)
        said = f"fitted on {most:,} of {len(train):,} training {train.inputs.noun}, evenly spread"
        warnings = (f"the linear baseline: {said}",)
    rows = (
        spread_rows(len(train), most)
        if warnings
        else np.arange(0, len(train), math.ceil(len(train) / most))
    )
    inputs = as_columns(train.inputs.take(rows))
    linear = fit_linear(
        _LINEAR_OF_COLUMNS,
        inputs,
        train.target[rows],
        target.outputs,
        (),
        learns=LearnedNumber(target.is_count, target.quantiles),
    )
    return Baselines(
        dummy=Predictor(
            features, target, fit_constant(train.target, target.outputs, target.quantiles)
        ),
        linear=Predictor(features, target, linear),
        shares={},
        # Non-convergence on so many pixels is no evidence about the evaluated model.
        warnings=warnings,
    )


def _of_images(prepared: Prepared, data: Feeding, most_rows: float) -> Baselines:
    """As of columns, and a linear model of colour statistics on at most 20,000 images."""
    # Imported here, as all that only images need.
    from trainwright.data.encoders.pixel_statistics import Pixels, fit_colours

    of_pixels = _of_columns(prepared, data, most_rows)
    train, target = prepared.train, prepared.target
    rows = spread_rows(len(train), int(min(most_rows, _MOST_SEEN, len(train))))
    images = ImageInputs.of_kind(train.inputs.take(rows))
    features = fit_colours(Pixels.of_kind(prepared.features), images)
    inputs = features.encode(images)
    linear = fit_linear(_LINEAR, inputs, train.target[rows], target.outputs, ())
    return replace(of_pixels, others={COLOURS: Predictor(features, target, linear)})


def _of_text(prepared: Prepared, _data: Feeding, _most_rows: float) -> Baselines:
    """Unigram model (dummy) and bigram model (linear)."""
    from trainwright.data.base.token_inputs import TokenInputs
    from trainwright.model.baselines.ngram_baseline import fit_frequencies

    inputs, target = TokenInputs.of_kind(prepared.train.inputs), prepared.target
    single = fit_frequencies(inputs, target.outputs, pairs=False)
    double = fit_frequencies(inputs, target.outputs, pairs=True)
    return Baselines(
        dummy=Predictor(prepared.features, target, single),
        linear=Predictor(prepared.features, target, double),
        shares={},
        warnings=(),
    )


def _of_chats(prepared: Prepared, _data: Feeding, _most_rows: float) -> Baselines:
    """Unigram model (dummy) and bigram model (linear) of the answers, or of captions."""
    from trainwright.data.base.token_inputs import TokenInputs
    from trainwright.model.baselines.ngram_baseline import fit_frequencies

    inputs, target = TokenInputs.of_kind(prepared.train.inputs.segments), prepared.target
    single, double = (
        fit_frequencies(inputs, target.outputs, pairs=pairs, segments=True)
        for pairs in (False, True)
    )
    return Baselines(
        dummy=Predictor(prepared.features, target, single),
        linear=Predictor(prepared.features, target, double),
        shares={},
        warnings=(),
    )


def _of_preferences(prepared: Prepared, _data: Feeding, _most_rows: float) -> Baselines:
    """No preference (dummy), and the longer answer (linear)."""
    from trainwright.model.answer_lengths import AnswerLengths

    features, target = prepared.features, prepared.target
    return Baselines(
        dummy=Predictor(features, target, fit_constant(prepared.train.target, 1)),
        linear=Predictor(features, target, AnswerLengths()),
        shares={},
        warnings=(),
    )


def _of_table(prepared: Prepared, data: Feeding, most_rows: float) -> Baselines:
    """Fit both on the same columns.

    The linear one has its own features, standardised and median-imputed, because the model's may
    hold NaN; `section` gives the treatment of rare categories, dates and texts. Of more than
    500,000 rows it is fitted on 200,000, with a warning.
    """
    train, target, section = prepared.train, prepared.target, TableData.of(data).features
    seen = spread_rows(len(train), int(min(most_rows, _seen_of_table(prepared))))
    answers = train.target[seen]
    features, encoded = _encoded(prepared, section, seen)
    inputs = replace(encoded, row_levels=train.inputs.levels.take(seen))
    of_texts = bool(features.texts) and target.task in ("classification", "multilabel")
    kind = _LINEAR_OF_TEXTS if of_texts else _LINEAR
    linear = fit_linear(
        kind,
        inputs,
        answers,
        target.outputs,
        features.cardinalities,
        learns=LearnedNumber(target.is_count, target.quantiles),
    )
    said = list(linear.warnings)
    if len(seen) < len(train):
        said.append(f"fitted on {len(seen):,} of {len(train):,} training rows, evenly spread")
    spreads = linear.spreads(inputs)
    total = float(spreads.sum()) or 1.0
    names = (*features.numeric_names, *features.categorical_names)
    return Baselines(
        dummy=Predictor(
            features, target, fit_constant(train.target, target.outputs, target.quantiles)
        ),
        linear=Predictor(features, target, linear),
        shares={name: float(one) / total for name, one in zip(names, spreads, strict=True)},
        warnings=tuple(f"the linear baseline: {one}" for one in said),
    )


def _of_series(prepared: Prepared, data: Feeding, most_rows: float) -> Baselines:
    """The mean of the training rows, and a ridge regression of the same features as the model's."""
    # Imported here: few runs have series.
    from trainwright.contract.sections.data.series import SeriesData
    from trainwright.data.series.series_encoder import SeriesEncoder

    train, features = prepared.train, SeriesEncoder.of_kind(prepared.features)
    fitted = _of_table(
        _as_learned(prepared), TableData(features=SeriesData.of(data).features), most_rows
    )
    linear = replace(features, table=TableEncoder.of_kind(fitted.linear.features))
    dummy = features.without_levels()
    return replace(
        fitted,
        dummy=Predictor(
            dummy,
            prepared.target,
            fit_constant(train.target, 1, prepared.target.quantiles),
        ),
        linear=Predictor(linear, prepared.target, fitted.linear.scorer),
    )


def _of_pairs(prepared: Prepared, _data: Feeding, most_rows: float) -> Baselines:
    """Chance, and a linear model of small images and terms."""
    # Imported here, as all that only pairs need.
    from trainwright.evaluation.baselines.linear_matching import chance_of_pairs, match_linearly

    linear = match_linearly(prepared, most_rows)
    return Baselines(dummy=chance_of_pairs(prepared), linear=linear, shares={}, warnings=())


def _of_text_pairs(prepared: Prepared, _data: Feeding, most_rows: float) -> Baselines:
    """Chance, BM25 and a linear model of terms."""
    from trainwright.evaluation.baselines.linear_matching import (
        bm25_of_passages,
        chance_of_passages,
        match_terms,
    )

    return Baselines(
        dummy=chance_of_passages(prepared),
        linear=match_terms(prepared, most_rows),
        shares={},
        warnings=(),
        others={BM25: bm25_of_passages(prepared)},
    )


def _as_learned(prepared: Prepared) -> Prepared:
    return replace(prepared, train=prepared.train.learned())


def _encoded(
    prepared: Prepared, section: FeaturesSection, seen: Integers
) -> tuple[TableEncoder, TableInputs]:
    """Features of the linear one for some training rows, and these encoded. The rows themselves
    take no memory beside its fit."""
    train, known = prepared.train, prepared.table
    text = section.text.model_copy(update=_TERMS)
    own = {"numeric": "standard", "impute": "median", "categorical": "codes", "text": text}
    chosen = section.model_copy(update=own)
    frame, answers, units = train.frame, train.target[seen], train.units[seen]
    if len(seen) < len(train):
        frame = IN_MEMORY.frame(taken(frame, seen))
    means = partial(train_target, prepared.target, answers, units, chosen.folds, seed=0)
    rows = TrainRows(frame, known.columns, known.cleaning, means, known.history)
    return fit_features(rows, chosen, {})


@final
@dataclass(frozen=True, slots=True)
class BaselineFit:
    """How the baselines of a kind of data are fitted, and the training rows that the linear one
    sees without a limit."""

    fit: Callable[[Prepared, Feeding, float], Baselines]
    seen_rows: Callable[[Prepared], int]


USUAL_BASELINES = BaselineFit(_of_columns, _seen_columns)
"""A linear model of the columns of the inputs."""

BASELINES: Mapping[str, BaselineFit] = MappingProxyType(
    {
        "table": BaselineFit(_of_table, _seen_of_table),
        "images": BaselineFit(_of_images, _seen_columns),
        "tokens": BaselineFit(_of_text, lambda _: 0),
        "chats": BaselineFit(_of_chats, lambda _: 0),
        "captions": BaselineFit(_of_chats, lambda _: 0),
        "preferences": BaselineFit(_of_preferences, lambda _: 0),
        "series": BaselineFit(_of_series, _seen_of_table),
        "text_pairs": BaselineFit(
            _of_text_pairs, lambda prepared: min(_MOST_SEEN, len(prepared.train))
        ),
        "pairs": BaselineFit(_of_pairs, lambda prepared: min(_MOST_SEEN, len(prepared.train))),
    }
)
"""Of the kinds of data that have others."""
