"""Logistic, ridge and Poisson regression: fitted by scipy and scikit-learn, stored as JSON, scored
by numpy alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.model.linear import Linear
from trainwright.core.files import read_json, write_json
from trainwright.data.base.inputs import Floats, Inputs, TableInputs, as_columns
from trainwright.data.base.levels import quantiles_by_step
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.statistics.logistic_regression import fit_logistic
from trainwright.model.family import MEAN, LearnedNumber
from trainwright.model.tree_growth import weights_by_class, weights_of_rows

Link = Literal["identity", "log", "logistic", "softmax", "sigmoid"]

_LEAST_PENALTY = 1e-10
"""Substitute for a penalty of 0, without which coefficients of classes apart have no end."""

_MOST_LOG_RATE = 300.0
"""Largest size of the logarithm of a rate: squares of larger rates leave the range of float64."""

_DESIGN_ROWS = 4096
"""Rows that are in memory twice while their sparse design is made."""


def _of_no_step() -> Floats:
    return np.empty((0, 0))


@final
@dataclass(frozen=True, slots=True)
class FittedLinear:
    """Coefficients of K linear functions of F numbers (text terms last) and G categories.

    `intercept` [K], `numeric` [K, F], and for each categorical column a table [codes, K]. `link`
    turns them into scores: `identity` values, `log` (K = 1) rates of counts, `logistic`
    (K = 1) two classes, `softmax` several, `sigmoid` K labels. Of forecasts, the row of `by_step`
    [H, K] of the step is added; without steps it is [0, 0]. `present` are the codes of the classes
    in the training rows, `outputs` the number of score columns. `warnings` are those of the fit.
    """

    link: Link
    outputs: int
    present: tuple[int, ...]
    intercept: Floats
    numeric: Floats
    categories: tuple[Floats, ...]
    warnings: tuple[str, ...] = ()
    by_step: Floats = field(default_factory=_of_no_step)
    kind: ClassVar[str] = "linear"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], values [N, 1] or quantiles [N, K]. Inputs hold no NaN."""
        columns = as_columns(inputs)
        numbers = columns.numeric.shape[1]
        raw = columns.numeric.astype(np.float64) @ self.numeric[:, :numbers].T + self.intercept
        if columns.terms.width:
            raw += columns.terms.matrix() @ self.numeric[:, numbers:].T
        for column, table in enumerate(self.categories):
            raw += table[columns.categories[:, column]]
        if len(self.by_step):
            raw += self.by_step[np.minimum(columns.levels.steps, len(self.by_step)) - 1]
        if self.link == "identity":
            return raw
        if self.link == "sigmoid":
            return _logistic(raw)
        if self.link == "log":
            return np.exp(np.clip(raw, -_MOST_LOG_RATE, _MOST_LOG_RATE))
        if self.link == "logistic":
            chance = _logistic(raw[:, 0])
            found = np.stack([1 - chance, chance], axis=1)
        else:
            found = _softmax(raw)
        scores = np.zeros((len(inputs), self.outputs))
        scores[:, list(self.present)] = found
        return scores

    def write(self, folder: Path) -> None:
        """Write `linear.json`."""
        write_json(
            folder / "linear.json",
            {
                "link": self.link,
                "outputs": self.outputs,
                "present": list(self.present),
                "intercept": self.intercept.tolist(),
                "numeric": self.numeric.tolist(),
                "categories": [table.tolist() for table in self.categories],
                "warnings": list(self.warnings),
                **({"by_step": self.by_step.tolist()} if len(self.by_step) else {}),
            },
        )

    def spreads(self, inputs: TableInputs) -> Floats:
        """Importance of each column on these rows, [F + G]: the standard deviation of its term,
        summed over the K functions."""
        if not len(inputs):
            return np.zeros(self.numeric.shape[1] + len(self.categories))
        deviations = np.concatenate(
            [inputs.numeric.std(axis=0, dtype=np.float64), inputs.terms.deviations()]
        )
        numbers = np.abs(self.numeric).sum(axis=0) * deviations
        tables = [
            table[inputs.categories[:, column]].std(axis=0).sum()
            for column, table in enumerate(self.categories)
        ]
        return np.concatenate([numbers, np.asarray(tables, np.float64)])


def read_linear(folder: Path) -> FittedLinear:
    """Read what `FittedLinear.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is something else, or a number is not finite.
    """
    json = read_json(folder / "linear.json")
    intercept = np.asarray(json["intercept"], np.float64)
    found = FittedLinear(
        link=json["link"],
        outputs=int(json["outputs"]),
        present=tuple(json["present"]),
        intercept=intercept,
        numeric=np.asarray(json["numeric"], np.float64).reshape(len(intercept), -1),
        categories=tuple(np.asarray(table, np.float64) for table in json["categories"]),
        warnings=tuple(json["warnings"]),
        by_step=np.asarray(json.get("by_step", []), np.float64).reshape(-1, len(intercept)),
    )
    check_annotated(found, "linear.json")
    return found


def fit_linear(
    section: Linear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    outputs: int,
    cardinalities: tuple[int, ...],
    learns: LearnedNumber = MEAN,
    weights: Floats | None = None,
) -> FittedLinear:
    """Fit on scaled, imputed numbers and one-hot categories.

    `target` is int64 class codes [N] for `outputs` classes, or float64 values [N] for `outputs` 1.
    Of several targets [N, T] each is fitted by itself: labels where they are codes, 0 and 1.
    `weights` [N] multiply the losses of the rows, in place of the section's `class_weights`, which
    are counted in for each of several labels.
    A solver that has not converged is reported in `warnings` of the result.
    """
    assert bool(np.isfinite(inputs.numeric).all()), "numbers of a linear model are imputed"
    if target.ndim == 2:
        return _fit_each(section, inputs, target, cardinalities, weights)
    if learns.rates:
        return _fit_poisson(section, inputs, target, cardinalities, weights)
    if outputs == 1:
        fitted = _fit_ridge(section, inputs, target, cardinalities, weights)
        return _shifted(fitted, inputs, target, learns.quantiles) if learns.quantiles else fitted
    return _fit_logistic(section, inputs, target, outputs, cardinalities, weights)


def _fit_logistic(
    section: Linear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    outputs: int,
    cardinalities: tuple[int, ...],
    weights: Floats | None,
) -> FittedLinear:
    if weights is None:
        _, codes = np.unique(target, return_inverse=True)
        by_class = weights_by_class(section.class_weights, codes, int(codes.max()) + 1)
        weights = None if by_class is None else by_class[codes]
    penalty = max(_penalty(section), _LEAST_PENALTY)
    design = _design(inputs, cardinalities)
    model = fit_logistic(design, target, penalty, section.max_iterations, weights)
    said: tuple[str, ...] = ()
    if model.iterations >= section.max_iterations:
        said = (
            f"the logistic regression did not converge in {section.max_iterations} "
            "iterations: raise max_iterations or penalty",
        )
    link: Link = "logistic" if len(model.intercepts) == 1 else "softmax"
    numeric, tables = _divide(model.coefficients, _numbers(inputs), cardinalities)
    present = tuple(int(code) for code in model.present)
    return FittedLinear(link, outputs, present, model.intercepts, numeric, tables, said)


def _fit_ridge(
    section: Linear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    cardinalities: tuple[int, ...],
    weights: Floats | None,
) -> FittedLinear:
    from sklearn.linear_model import Ridge

    penalty = _penalty(section)
    # Dense normal equations are exact; sparse one-hot columns are solved iteratively.
    model = (
        Ridge(alpha=penalty, solver="sparse_cg", tol=1e-8, max_iter=section.max_iterations)
        if cardinalities or inputs.terms.width
        else Ridge(alpha=penalty, solver="svd")
    )
    model.fit(_design(inputs, cardinalities), target, weights)
    coefficients = np.asarray(model.coef_, np.float64).reshape(1, -1)
    numeric, tables = _divide(coefficients, _numbers(inputs), cardinalities)
    intercept = np.asarray([model.intercept_], np.float64).reshape(1)
    return FittedLinear("identity", 1, (), intercept, numeric, tables)


def _fit_each(
    section: Linear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    cardinalities: tuple[int, ...],
    weights: Floats | None,
) -> FittedLinear:
    """The functions of each target [N, T], one below the other."""
    of_labels = target.dtype.kind == "i"
    outputs = 2 if of_labels else 1

    def counted(column: npt.NDArray[Any]) -> Floats | None:
        if not of_labels or weights is None:
            return weights
        of_class = weights_by_class(section.class_weights, column, 2, weights)
        return weights_of_rows(of_class, column, weights)

    each = [
        _fit_same(section, inputs, column, cardinalities)
        if of_labels and np.ptp(column) == 0
        else fit_linear(section, inputs, column, outputs, cardinalities, weights=counted(column))
        for column in target.T
    ]
    tables = zip(*(one.categories for one in each), strict=True)
    return FittedLinear(
        "sigmoid" if of_labels else "identity",
        target.shape[1],
        (),
        np.concatenate([one.intercept for one in each]),
        np.concatenate([one.numeric for one in each]),
        tuple(np.concatenate(some, axis=1) for some in tables),
        tuple(dict.fromkeys(said for one in each for said in one.warnings)),
    )


def _fit_same(
    section: Linear, inputs: TableInputs, column: npt.NDArray[Any], cardinalities: tuple[int, ...]
) -> FittedLinear:
    """A label that all rows [N] have, or none, as in a small fold: its odds with half a row more of
    each kind, whatever the inputs."""
    shape = _fit_ridge(section, inputs, np.zeros(len(column)), cardinalities, None)
    share = (float(column.sum()) + 0.5) / (len(column) + 1)
    return replace(shape, intercept=np.array([np.log(share / (1 - share))]))


def _shifted(
    fitted: FittedLinear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    quantiles: tuple[float, ...],
) -> FittedLinear:
    """K parallel functions: the mean, shifted by the quantiles of its residuals on these rows; of
    forecasts by those of each step."""
    residuals, steps = target - fitted.score(inputs)[:, 0], inputs.levels.steps
    shifts = np.quantile(residuals, quantiles)
    count, by_step = len(quantiles), _of_no_step()
    if len(steps):
        each = quantiles_by_step(residuals, steps, quantiles, int(steps.max()))
        shifts, by_step = np.zeros(count), each
    return replace(
        fitted,
        outputs=count,
        by_step=by_step,
        intercept=fitted.intercept + shifts,
        numeric=np.tile(fitted.numeric, (count, 1)),
        categories=tuple(np.tile(table, (1, count)) for table in fitted.categories),
    )


def _fit_poisson(
    section: Linear,
    inputs: TableInputs,
    target: npt.NDArray[Any],
    cardinalities: tuple[int, ...],
    weights: Floats | None,
) -> FittedLinear:
    """The sum of half deviances and penalty / 2 times the squared weights; scikit-learn takes the
    mean over the rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import PoissonRegressor

    counted = len(target) if weights is None else float(weights.sum())
    model = PoissonRegressor(
        alpha=_penalty(section) / counted, max_iter=section.max_iterations, tol=1e-5
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(_design(inputs, cardinalities), target, weights)
    said: tuple[str, ...] = ()
    if int(model.n_iter_) >= section.max_iterations:
        said = (
            f"the Poisson regression did not converge in {section.max_iterations} iterations: "
            "raise max_iterations or penalty",
        )
    coefficients = np.asarray(model.coef_, np.float64).reshape(1, -1)
    numeric, tables = _divide(coefficients, _numbers(inputs), cardinalities)
    intercept = np.asarray([model.intercept_], np.float64).reshape(1)
    return FittedLinear("log", 1, (), intercept, numeric, tables, said)


def _design(inputs: TableInputs, cardinalities: tuple[int, ...]) -> Any:
    """Design matrix, float64 [N, F + T + sum of cardinalities]: numbers, terms, then one-hot codes;
    sparse if there are terms or codes."""
    if not cardinalities and not inputs.terms.width:
        return inputs.numeric.astype(np.float64)
    if not inputs.terms.width:
        return _sparse_design(inputs.numeric, inputs.categories, cardinalities)
    from scipy import sparse

    numbers = sparse.csr_array(inputs.numeric.astype(np.float64))
    codes = _sparse_design(inputs.numeric[:, :0], inputs.categories, cardinalities)
    blocks = [numbers, inputs.terms.matrix().astype(np.float64), codes]
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))


def _sparse_design(
    numeric: npt.NDArray[Any], codes: npt.NDArray[Any], cardinalities: tuple[int, ...]
) -> Any:
    """Numbers [N, F] and one-hot codes, without the zeros: built some rows at a time, because
    stacking blocks of columns costs more than the fit of a few."""
    from scipy import sparse

    rows, numbers = numeric.shape
    width = numbers + codes.shape[1]
    starts = np.cumsum([numbers, *cardinalities])
    # int32 indices like scipy's: half the memory, where it is enough.
    kind = np.int32 if max(rows * width, int(starts[-1])) < 2**31 else np.int64
    filled = np.count_nonzero(numeric, axis=1) + codes.shape[1]
    ends = np.concatenate([[0], filled.cumsum()])
    values, columns = np.empty(ends[-1]), np.empty(ends[-1], kind)
    for start in range(0, rows, _DESIGN_ROWS):
        stop = min(rows, start + _DESIGN_ROWS)
        some, places = np.ones((stop - start, width)), np.empty((stop - start, width), kind)
        some[:, :numbers] = numeric[start:stop]
        places[:, :numbers] = np.arange(numbers)
        places[:, numbers:] = codes[start:stop] + starts[:-1]
        found = some != 0
        here = slice(ends[start], ends[stop])
        values[here], columns[here] = some[found], places[found]
    return sparse.csr_array((values, columns, ends.astype(kind)), shape=(rows, int(starts[-1])))


def _penalty(section: Linear) -> float:
    """The default without a plan, which knows whether there are texts."""
    return 1.0 if section.penalty == "auto" else section.penalty


def _numbers(inputs: TableInputs) -> int:
    width: int = inputs.numeric.shape[1]
    return width + inputs.terms.width


def _divide(
    coefficients: npt.NDArray[np.float64], numbers: int, cardinalities: tuple[int, ...]
) -> tuple[Floats, tuple[Floats, ...]]:
    """Split coefficients [K, F + codes] into those of the numbers [K, F] and one table [codes, K]
    per category."""
    ends = np.cumsum([numbers, *cardinalities])
    tables = tuple(
        np.ascontiguousarray(coefficients[:, end - size : end].T, np.float64)
        for end, size in zip(ends[1:], cardinalities, strict=True)
    )
    return np.ascontiguousarray(coefficients[:, :numbers], np.float64), tables


def _logistic(raw: Floats) -> Floats:
    """1 / (1 + exp(-raw)) without overflow."""
    small = np.exp(-np.abs(raw))
    return np.where(raw >= 0, 1 / (1 + small), small / (1 + small))


def _softmax(raw: Floats) -> Floats:
    if not len(raw):
        return raw
    grown = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))
