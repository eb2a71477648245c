"""Missing and scaled numbers, kept as plain numbers.

Medians and quantiles are those of scikit-learn's SimpleImputer, RobustScaler and
QuantileTransformer bit for bit; tests hold them to it. They are computed by numpy, because
importing scikit-learn takes nearly as long as importing torch, and a network needs nothing else of
it before its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.features import Imputing, Scaling
from trainwright.core.files import Json
from trainwright.data.normal import normal_places
from trainwright.data.table import Floats, Integers

_MOST_QUANTILES = 1000
_QUANTILE_ROWS = 200_000
_MIDDLES: Mapping[str, Callable[..., Any]] = {"median": np.ma.median, "mean": np.ma.mean}
_BOUND = 1e-7
"""Shares of 0 and 1 are held so far from them, as their places would be infinite."""


@final
@dataclass(frozen=True, slots=True)
class NumberState:
    """How F numeric columns become inputs, as fitted on the training rows.

    `scale` and `impute` [F] say what is done to each. `fill` [F] stands for missing numbers (0 in a
    column without imputation). `indicated` are the columns with missing training values, each of
    which gets a 0/1 column. `center` and `spread` [F] (0 and 1 where they are not used) belong to
    `standard`, `robust` and, behind the logarithm, `log`; `quantiles` [Q, columns of that kind] to
    `quantile`.
    """

    scale: tuple[Scaling, ...]
    impute: tuple[Imputing, ...]
    fill: Floats
    indicated: tuple[int, ...]
    center: Floats
    spread: Floats
    quantiles: Floats

    def transform(self, values: Floats) -> npt.NDArray[np.float32]:
        """[N, F] with NaN for missing -> [N, F + indicators] as 32-bit floats."""
        missing = np.isnan(values)
        filled = _filled(values, self.impute, self.fill)
        scaled = self._scaled(filled)
        indicators = missing[:, list(self.indicated)].astype(np.float32)
        return np.concatenate([scaled.astype(np.float32), indicators], axis=1)

    def _scaled(self, values: Floats) -> Floats:
        if not values.size:
            return values
        values = _logarithms(values, self.scale)
        moved = _where(self.scale, "standard", "robust", "log")
        if len(moved):
            values = values.copy()
            values[:, moved] = (values[:, moved] - self.center[moved]) / self.spread[moved]
        if len(spread := _where(self.scale, "quantile")):
            values = values.copy()
            values[:, spread] = _to_normal(values[:, spread], self.quantiles)
        return values

    def to_json(self) -> Json:
        """What `from_json` reads; every float survives to the last bit."""
        return {
            "scale": list(self.scale),
            "impute": list(self.impute),
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
            scale=tuple(value["scale"]),
            impute=tuple(value["impute"]),
            fill=np.array(value["fill"], dtype=np.float64),
            indicated=tuple(value["indicated"]),
            center=np.array(value["center"], dtype=np.float64),
            spread=np.array(value["spread"], dtype=np.float64),
            quantiles=np.array(value["quantiles"], dtype=np.float64),
        )


def fit_numbers(
    values: Floats, scale: Sequence[Scaling], impute: Sequence[Imputing]
) -> NumberState:
    """Fit on the training rows [N, F], NaN for missing; `scale` and `impute` are of each column. A
    column without any training value is filled with 0."""
    columns = values.shape[1]
    fill, center, spread = np.zeros(columns), np.zeros(columns), np.ones(columns)
    missing = np.isnan(values)
    for name in _MIDDLES:
        if len(chosen := _where(impute, name)):
            fill[chosen] = _fill(_columns(values, chosen), name)
    imputed = _where(impute, *_MIDDLES)
    indicated = tuple(int(one) for one in imputed if missing[:, one].any())
    values = _logarithms(_filled(values, impute, fill), scale)
    if len(chosen := _where(scale, "standard", "log")):
        center[chosen], spread[chosen] = _standard(_columns(values, chosen))
    if len(chosen := _where(scale, "robust")):
        center[chosen], spread[chosen] = _robust(_columns(values, chosen))
    chosen = _where(scale, "quantile")
    quantiles = _quantiles(_columns(values, chosen)) if len(chosen) else np.empty(0)
    return NumberState(tuple(scale), tuple(impute), fill, indicated, center, spread, quantiles)


def _where(kinds: Sequence[str], *wanted: str) -> Integers:
    """The columns of these kinds."""
    return np.array([at for at, kind in enumerate(kinds) if kind in wanted], dtype=np.int64)


def _columns(values: Floats, chosen: Integers) -> Floats:
    """Some of the columns. All of them as they lie: sums go through memory in its order, and a
    column must not depend on what is written of others."""
    return values if len(chosen) == values.shape[1] else np.ascontiguousarray(values[:, chosen])


def _filled(values: Floats, impute: Sequence[str], fill: Floats) -> Floats:
    if "none" not in impute:
        return np.where(np.isnan(values), fill, values)
    imputed = np.isin(np.arange(values.shape[1]), _where(impute, *_MIDDLES))
    return np.where(np.isnan(values) & imputed, fill, values)


def _logarithms(values: Floats, scale: Sequence[str]) -> Floats:
    """sign(x) ln(1 + |x|) in the columns of that scale: about x near 0, about ln |x| far off."""
    chosen = _where(scale, "log")
    if not len(chosen):
        return values
    values = values.copy()
    values[:, chosen] = np.sign(values[:, chosen]) * np.log1p(np.abs(values[:, chosen]))
    return values


def _fill(values: Floats, impute: str) -> Floats:
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


def _robust(values: Floats) -> tuple[Floats, Floats]:
    """Median, and third less first quartile; 1 where they are equal."""
    center, spread = np.zeros(values.shape[1]), np.ones(values.shape[1])
    present = ~np.isnan(values).all(axis=0)
    if present.any():
        center[present] = np.nanmedian(values[:, present], axis=0)
        first, third = np.nanpercentile(values[:, present], (25.0, 75.0), axis=0)
        apart = third - first
        spread[present] = np.where(apart < 10 * np.finfo(np.float64).eps, 1.0, apart)
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
    bound = _BOUND - np.spacing(1)
    return normal_places(np.clip(out, bound, 1 - bound))
