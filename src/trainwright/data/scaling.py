"""Missing and scaled numbers, kept as plain numbers.

Medians and quantiles are those of scikit-learn's SimpleImputer and QuantileTransformer bit for bit;
tests hold them to it. They are computed by numpy, because importing scikit-learn takes nearly as
long as importing torch, and a network needs nothing else of it before its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never, final

import numpy as np
import numpy.typing as npt

from trainwright.core.files import Json
from trainwright.data.table import Floats

Scale = Literal["none", "standard", "quantile"]
Impute = Literal["none", "median", "mean"]

_MOST_QUANTILES = 1000
_QUANTILE_ROWS = 200_000
_MIDDLES: Mapping[str, Callable[..., Any]] = {"median": np.ma.median, "mean": np.ma.mean}
_BOUND = 1e-7
"""Shares of 0 and 1 are held so far from them, as their places would be infinite."""


@final
@dataclass(frozen=True, slots=True)
class NumberState:
    """How F numeric columns become inputs, as fitted on the training rows.

    `fill` [F] stands for missing numbers (empty without imputation). `indicated` are the columns
    with missing training values, each of which gets a 0/1 column. `center` and `spread` [F] belong
    to `standard`; `quantiles` [Q, F] to `quantile`.
    """

    scale: Scale
    impute: Impute
    fill: Floats
    indicated: tuple[int, ...]
    center: Floats
    spread: Floats
    quantiles: Floats

    def transform(self, values: Floats) -> npt.NDArray[np.float32]:
        """[N, F] with NaN for missing -> [N, F + indicators] as 32-bit floats."""
        missing = np.isnan(values)
        filled = values if self.impute == "none" else np.where(missing, self.fill, values)
        scaled = self._scaled(filled)
        indicators = missing[:, list(self.indicated)].astype(np.float32)
        return np.concatenate([scaled.astype(np.float32), indicators], axis=1)

    def _scaled(self, values: Floats) -> Floats:
        if not values.size:
            return values
        match self.scale:
            case "none":
                return values
            case "standard":
                return (values - self.center) / self.spread
            case "quantile":
                return _to_normal(values, self.quantiles)
            case _:
                assert_never(self.scale)

    def to_json(self) -> Json:
        """What `from_json` reads; every float survives to the last bit."""
        return {
            "scale": self.scale,
            "impute": self.impute,
            "fill": self.fill.tolist(),
            "indicated": list(self.indicated),
            "center": self.center.tolist(),
            "spread": self.spread.tolist(),
            "quantiles": self.quantiles.tolist(),
        }

    @classmethod
    def from_json(cls, value: Json) -> NumberState:
        """The state that `to_json` wrote."""
        return cls(
            scale=value["scale"],
            impute=value["impute"],
            fill=np.array(value["fill"], dtype=np.float64),
            indicated=tuple(value["indicated"]),
            center=np.array(value["center"], dtype=np.float64),
            spread=np.array(value["spread"], dtype=np.float64),
            quantiles=np.array(value["quantiles"], dtype=np.float64),
        )


def fit_numbers(values: Floats, scale: Scale, impute: Impute) -> NumberState:
    """Fit on the training rows [N, F], NaN for missing. A column without any training value is
    filled with 0."""
    empty = np.empty(0, dtype=np.float64)
    if not values.shape[1]:
        return NumberState(scale, impute, empty, (), empty, empty, empty)
    missing = np.isnan(values)
    fill = empty
    indicated: tuple[int, ...] = ()
    if impute != "none":
        fill = _fill(values, impute)
        indicated = tuple(np.flatnonzero(missing.any(axis=0)).tolist())
        values = np.where(missing, fill, values)
    center, spread, quantiles = empty, empty, empty
    match scale:
        case "none":
            pass
        case "standard":
            center, spread = _standard(values)
        case "quantile":
            quantiles = _quantiles(values)
        case _:
            assert_never(scale)
    return NumberState(scale, impute, fill, indicated, center, spread, quantiles)


def _fill(values: Floats, impute: Literal["median", "mean"]) -> Floats:
    present = np.ma.masked_array(values, mask=np.isnan(values))
    middle = _MIDDLES[impute](present, axis=0)
    return np.asarray(np.ma.filled(middle, 0.0), dtype=np.float64)


def _standard(values: Floats) -> tuple[Floats, Floats]:
    from sklearn.preprocessing import StandardScaler

    present = ~np.isnan(values).all(axis=0)
    center, spread = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if present.any():
        scaler = StandardScaler().fit(values[:, present])
        center[present], spread[present] = scaler.mean_, scaler.scale_
    return center, spread


def _quantiles(values: Floats) -> Floats:
    """Of each column at even shares from 0 to 1; of many rows from a part that is drawn."""
    rows = len(values)
    quantiles = np.zeros((min(_MOST_QUANTILES, rows), values.shape[1]))
    present = ~np.isnan(values).all(axis=0)
    if rows > _QUANTILE_ROWS:
        chosen = np.arange(rows)
        # The generator of scikit-learn, so that the same rows are drawn.
        np.random.RandomState(0).shuffle(chosen)
        values = values[chosen[:_QUANTILE_ROWS]]
    if present.any():
        shares = np.linspace(0, 1, len(quantiles), endpoint=True) * 100
        quantiles[:, present] = np.nanpercentile(values[:, present], shares, axis=0)
    return quantiles


def _to_normal(values: Floats, quantiles: Floats) -> Floats:
    """Each number at the place of the normal distribution at which it stands among the quantiles:
    between two by interpolation, in the middle of equal ones."""
    from scipy.special import ndtri

    shares = np.linspace(0, 1, len(quantiles), endpoint=True)
    out = np.array(values, dtype=np.float64)
    for column, known in zip(out.T, quantiles.T, strict=True):
        with np.errstate(invalid="ignore"):  # comparisons with NaN
            below, above = column - _BOUND < known[0], column + _BOUND > known[-1]
        seen = ~np.isnan(column)
        up = np.interp(column[seen], known, shares)
        down = np.interp(-column[seen], -known[::-1], -shares[::-1])
        column[seen] = 0.5 * (up - down)
        column[above] = 1
        column[below] = 0
    least = ndtri(_BOUND - np.spacing(1))
    most = ndtri(1 - (_BOUND - np.spacing(1)))
    return np.asarray(np.clip(ndtri(out), least, most))
