"""scikit-learn's interface: a model of a contract as a classifier or a regressor."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_random_state,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from trainwright.api import FittedRun
from trainwright.api import fit as fit_data
from trainwright.contract.reading.read_contract import file_or_text
from trainwright.core.errors import Interrupted, Mistake
from trainwright.data.base.inputs import Floats
from trainwright.predictor.bundle import read_bundle, write_bundle
from trainwright.predictor.input_rows import GivenRows, frame_of, is_pandas
from trainwright.predictor.predictor import Predictor
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen

_SECTIONS = ("model", "metric", "training", "data", "budget")
_PLAIN_LABEL = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_NO_LABELS = frozenset({"na", "nan", "null", "none", "true", "false"})
_VALIDATION = 0.15


class _ContractEstimator(BaseEstimator):  # type: ignore[misc]
    """Fits a contract's model on all rows that it is given; some of them validate."""

    _task: str

    def __init__(
        self,
        model: str | Mapping[str, Any] = "boosting",
        *,
        metric: str | Mapping[str, Any] = "auto",
        training: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        runs: str | Path | None = None,
        name: str = "",
        progress: bool = False,
    ) -> None:
        self.model = model
        self.metric = metric
        self.training = training
        self.data = data
        self.budget = budget
        self.random_state = random_state
        self.runs = runs
        self.name = name
        self.progress = progress

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the keys of sections, as `model__num_leaves`."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for section in _SECTIONS:
                params.update(_nested(section, params[section]))
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__num_leaves=8` sets one key of a section, and leaves the others.

        Raises:
            ValueError: there is no such parameter.
        """
        own = {key: value for key, value in params.items() if "__" not in key}
        super().set_params(**own)
        for key, value in params.items():
            section, *path = key.split("__")
            if key in own:
                continue
            if section not in _SECTIONS:
                raise ValueError(f"Invalid parameter {section!r} for estimator {self}.")
            setattr(
                self, section, _with_key(_section(section, getattr(self, section)), path, value)
            )
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _fit_rows(
        self, frame: pl.DataFrame, target: pl.Series, data: Mapping[str, Any], groups: Any
    ) -> Self:
        """Fit on the columns of a frame and a target; `data` is what is known of both."""
        if frame.height < 2:
            raise ValueError("Found array with 1 sample(s) while a minimum of 2 is required.")
        named = _free_name("group", frame.columns)
        if groups is not None:
            if "split" in _section("data", self.data):
                raise ValueError("groups and data['split'] both divide the rows: give one of them")
            check_consistent_length(target, groups)
            frame = frame.with_columns(pl.Series(named, [str(one) for one in groups]))
        target = target.alias(_free_name(target.name, frame.columns))
        frame = frame.with_columns(target)
        sections = {
            "train_path": "frame://rows",
            "test_path": "frame://no_rows",
            "target": target.name,
            "split": self._split(named if groups is not None else "", frame.height),
            **data,
        }
        fitted = self._fit_contract(self._contract(sections), frame)
        self.predictor_ = _apart(fitted.predictor)
        self.validation_score_ = fitted.score
        self.history_ = fitted.history
        return self

    def _split(self, group: str, rows: int) -> dict[str, Any]:
        """The split of the rows: a validation row at least, and rare classes for the training."""
        is_class = self._task == "classification"
        if group:
            kind = "stratified_group" if is_class else "group"
            return {"kind": kind, "column": group, "validation": _VALIDATION}
        split = {"kind": "random", "validation": max(_VALIDATION, 1 / rows)}
        return {**split, "kind": "stratified", "rare": "train"} if is_class else split

    def _contract(self, data: dict[str, Any]) -> dict[str, Any]:
        given = {name: _section(name, getattr(self, name)) for name in _SECTIONS}
        own = given.pop("data")
        columns = {**data["columns"], **own.get("columns", {})}
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        return {
            "name": self.name or type(self).__name__.lower(),
            "task": self._task,
            "seed": int(seed),
            "split_seed": int(seed),
            **{name: section for name, section in given.items() if section},
            "data": {**data, **own, "columns": columns},
        }

    def _fit_contract(self, sections: Mapping[str, Any], frame: pl.DataFrame) -> FittedRun:
        frames = {"rows": frame, "no_rows": frame.clear()}
        screen = StreamScreen(sys.stderr if self.progress else io.StringIO())
        try:
            with _run_parent(self.runs) as runs:
                request = Request(file_or_text(sections), frames=frames)
                prepared = PreparedData.of(request, screen)
                fitted = fit_data(prepared, runs=runs, progress=self.progress)
                # Of a temporary run nothing can be read later.
                _ = fitted.score
                self.run_folder_ = fitted.folder if self.runs is not None else None
                return fitted
        except Mistake as mistake:
            raise ValueError(str(mistake)) from mistake

    def _read_rows(self, X: Any, *, reset: bool) -> tuple[pl.DataFrame, dict[str, Any]]:  # noqa: N803
        """Rows as a frame, and what is known of its columns by their types."""
        if isinstance(X, pl.DataFrame) or is_pandas(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            frame = frame_of(X)
            if not frame.height:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            written = [str(dtype) for dtype in X.dtypes]
        else:
            array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            frame = _frame_of_array(array)
            written = [str(array.dtype)] * frame.width
        kinds = {}
        for (name, dtype), kept in zip(frame.schema.items(), written, strict=True):
            if kept.lower().startswith(("categor", "enum")):
                kinds[name] = {"kind": "categorical"}
            elif dtype.is_numeric():
                kinds[name] = {"kind": "numeric"}
        return frame, kinds

    def _score_rows(self, X: Any) -> Floats:  # noqa: N803
        check_is_fitted(self)
        frame, _ = self._read_rows(X, reset=False)
        predictor = self.predictor_
        try:
            return np.asarray(predictor.score(predictor.features.read_new(GivenRows(frame))))
        except Mistake as mistake:
            raise ValueError(str(mistake)) from mistake


class Classifier(ClassifierMixin, _ContractEstimator):  # type: ignore[misc]
    """Classifier of scikit-learn that fits the model of a contract.

    Args:
        model: the section `model`, or its kind alone.
        metric: the section `metric`, or its name alone: what validation rows are scored with.
        training, data, budget: those sections. Of `data` what concerns columns, features and the
            split; the rows are those of `fit`.
        random_state: seed of split and training; None draws one.
        runs: parent folder of the run's folder; None keeps no folder.
        name: name of the run, before its number.
        progress: whether it is shown on stderr.
    """

    _task = "classification"

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:  # noqa: N803
        """Fit on rows X [N, F] (an array, or a frame of pandas or polars) with labels y [N]. Rows
        that share a value of `groups` [N] are validated or trained on together; `data` then has no
        split of its own.

        Raises:
            ValueError: rows, labels or sections are wrong; nothing was kept.
        """
        frame, columns = self._read_rows(X, reset=True)
        labels = _one_column(self, y, frame.height)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes[0]!r}; a classifier needs at least two")
        names = _label_names(classes)
        written = pl.Series(_name_of(y), names).gather(codes)
        positive = {"positive": str(names[1])} if len(classes) == 2 else {}
        if np.issubdtype(classes.dtype, np.integer):
            written = written.cast(pl.Int64)
        self._fit_rows(frame, written, {**positive, "columns": columns}, groups)
        self.classes_ = classes
        self._places = [self.predictor_.target.classes.index(name) for name in names]
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities [N, C] in the order of `classes_`."""
        scores = self._score_rows(X)
        return scores[:, self._places]

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Class of each row [N]: the most probable, or of two by `training.threshold`."""
        scores = self._score_rows(X)
        codes = self.predictor_.decide(scores)
        if codes is None:
            return np.asarray(self.classes_[scores[:, self._places].argmax(axis=1)])
        return np.asarray(self.classes_[np.argsort(self._places)[codes]])


class Regressor(RegressorMixin, _ContractEstimator):  # type: ignore[misc]
    """Regressor of scikit-learn that fits the model of a contract. Parameters are those of
    `Classifier`."""

    _task = "regression"

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:  # noqa: N803
        """Fit on rows X [N, F] with numbers y [N]; as `Classifier.fit`.

        Raises:
            ValueError: rows, numbers or sections are wrong; nothing was kept.
        """
        frame, columns = self._read_rows(X, reset=True)
        values = _one_column(self, y, frame.height)
        written = pl.Series(_name_of(y), check_array(values, ensure_2d=False, dtype=np.float64))
        return self._fit_rows(frame, written, {"columns": columns}, groups)

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Predicted number of each row [N]."""
        return np.asarray(self._score_rows(X)[:, 0])


@contextmanager
def _run_parent(runs: str | Path | None) -> Iterator[Path]:
    """The parent folder of a run. A temporary one cannot be resumed: a signal ends it as a
    keyboard interrupt."""
    if runs is not None:
        yield Path(runs)
        return
    with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
        try:
            yield Path(folder)
        except Interrupted as error:
            raise KeyboardInterrupt from error


def _apart(predictor: Predictor) -> Predictor:
    """The same predictor without the objects of its training, which a network's scorer holds."""
    if predictor.scorer.kind != "network":
        return predictor
    with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
        bundle = Path(folder) / "bundle"
        write_bundle(predictor, bundle, {})
        return read_bundle(bundle)


def _section(name: str, given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(given, str):
        return {"kind" if name == "model" else "name": given}
    return deepcopy(dict(given or {}))


def _nested(prefix: str, section: object) -> Iterator[tuple[str, Any]]:
    for key, value in section.items() if isinstance(section, Mapping) else ():
        yield f"{prefix}__{key}", value
        yield from _nested(f"{prefix}__{key}", value)


def _with_key(section: Mapping[str, Any], path: list[str], value: object) -> dict[str, Any]:
    key, *rest = path
    return {**section, key: _with_key(section.get(key, {}), rest, value) if rest else value}


def _free_name(wanted: str, taken: list[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _name_of(y: Any) -> str:
    name = getattr(y, "name", "")
    return name if isinstance(name, str) and name else "target"


def _one_column(estimator: BaseEstimator, y: Any, rows: int) -> npt.NDArray[Any]:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    column = column_or_1d(y, warn=True)
    assert_all_finite(column, input_name="y")
    check_consistent_length(column, np.empty(rows))
    return np.asarray(column)


def _label_names(classes: npt.NDArray[Any]) -> list[str]:
    """Names of the classes in the contract: their own, unless those could be read as other
    values."""
    if np.issubdtype(classes.dtype, np.integer):
        return [str(int(one)) for one in classes]
    labels = [str(one) for one in classes]
    if all(_PLAIN_LABEL.fullmatch(one) and one.lower() not in _NO_LABELS for one in labels):
        return labels
    return [f"class {place}" for place in range(len(labels))]


def _frame_of_array(array: npt.NDArray[Any]) -> pl.DataFrame:
    columns = {f"x{place}": array[:, place] for place in range(array.shape[1])}
    if array.dtype == object:
        return frame_of({name: list(values) for name, values in columns.items()})
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    return pl.DataFrame(array, schema=list(columns))
