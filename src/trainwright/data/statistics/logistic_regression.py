"""Logistic regression by L-BFGS: the fit of scikit-learn without the time of its import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from trainwright.core.process import one_blas_thread
from trainwright.data.base.inputs import Floats, Integers

_SMALLEST_GRADIENT = 1e-4
_SMALLEST_GAIN = 64 * np.finfo(np.float64).eps
_MOST_LINE_SEARCHES = 50


@final
@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """Coefficients [K, F] and intercepts [K] of the C classes `present`: K is 1 for two of them,
    else C."""

    present: Integers
    coefficients: Floats
    intercepts: Floats
    iterations: int

    def chances(self, rows: Any) -> Floats:
        """Probabilities [N, C] of rows [N, F]."""
        raw = rows @ self.coefficients.T + self.intercepts
        if len(self.intercepts) == 1:
            raw = np.concatenate([np.zeros_like(raw), raw], axis=1)
        raw -= raw.max(axis=1, keepdims=True)
        np.exp(raw, out=raw)
        chances: Floats = raw / raw.sum(axis=1, keepdims=True)
        return chances


@one_blas_thread()
def fit_logistic(
    rows: Any,
    given: Integers,
    penalty: float,
    most_iterations: int,
    weights: Floats | None = None,
    start: LogisticRegression | None = None,
) -> LogisticRegression:
    """Minimise the weighted log loss plus half the penalty times the squared coefficients.

    `rows` [N, F] are an array or a sparse matrix of float64, `given` the classes [N], at least two;
    `start` is a fit of the same columns and classes to begin with.
    """
    # Imported here: most of a run needs no optimizer.
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    present, codes = np.unique(given, return_inverse=True)
    functions = 1 if len(present) == 2 else len(present)
    share = np.full(len(codes), 1.0) if weights is None else weights
    share = (share / share.sum())[:, None]
    shrinkage = penalty / (len(codes) if weights is None else weights.sum())
    hits = codes[:, None] == np.arange(len(present))[-functions:]
    columns = rows.T

    def value_and_slope(flat: Floats) -> tuple[float, Floats]:
        table = flat.reshape(functions, -1)
        raw = rows @ table[:, :-1].T + table[:, -1]
        level = np.logaddexp(0.0, raw) if functions == 1 else logsumexp(raw, axis=1, keepdims=True)
        loss = float((share * level).sum() - (share * raw)[hits].sum())
        wrong = share * (np.exp(raw - level) - hits)
        slope = np.empty_like(table)
        slope[:, :-1] = (columns @ wrong).T + shrinkage * table[:, :-1]
        slope[:, -1] = wrong.sum(axis=0)
        return loss + shrinkage / 2 * float((table[:, :-1] ** 2).sum()), slope.ravel()

    begin = np.zeros((functions, rows.shape[1] + 1))
    if start is not None:
        begin[:, :-1], begin[:, -1] = start.coefficients, start.intercepts
    found = minimize(
        value_and_slope,
        begin.ravel(),
        method="L-BFGS-B",
        jac=True,
        options={
            "maxiter": most_iterations,
            "maxls": _MOST_LINE_SEARCHES,
            "gtol": _SMALLEST_GRADIENT,
            "ftol": _SMALLEST_GAIN,
        },
    )
    table = found.x.reshape(functions, -1)
    return LogisticRegression(present, table[:, :-1], table[:, -1], int(found.nit))
