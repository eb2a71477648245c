"""Dummy baseline: a constant prediction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from trainwright.core.files import read_json, write_json
from trainwright.data.base.inputs import Floats, Inputs


@final
@dataclass(frozen=True, slots=True)
class ConstantModel:
    """Class frequencies [C], one mean value or several [T], or quantiles [K], predicted for every
    row."""

    answer: tuple[float, ...]
    kind: ClassVar[str] = "constant"

    def score(self, inputs: Inputs) -> Floats:
        """The prediction for each row, [N, C], [N, 1] or [N, K]."""
        return np.tile(np.asarray(self.answer, np.float64), (len(inputs), 1))

    def write(self, folder: Path) -> None:
        """Write `constant.json`."""
        write_json(folder / "constant.json", {"answer": list(self.answer)})


def fit_constant(
    target: npt.NDArray[Any], outputs: int, quantiles: tuple[float, ...] = ()
) -> ConstantModel:
    """Frequencies of the `outputs` classes in `target` [N], or its mean if `outputs` is 1, or its
    `quantiles`. Of several targets [N, T] the mean of each: of a label its frequency."""
    assert len(target), "there are training rows"
    if target.ndim == 2:
        return ConstantModel(tuple(map(float, np.mean(target, axis=0))))
    if quantiles:
        return ConstantModel(tuple(map(float, np.quantile(target, quantiles))))
    if outputs == 1:
        return ConstantModel((float(np.mean(target)),))
    shares = np.bincount(target, minlength=outputs) / len(target)
    return ConstantModel(tuple(float(share) for share in shares))


def read_constant(folder: Path) -> ConstantModel:
    """Read what `Constant.write` wrote."""
    return ConstantModel(
        tuple(float(value) for value in read_json(folder / "constant.json")["answer"])
    )
