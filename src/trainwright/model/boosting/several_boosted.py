"""LightGBM models of several targets or quantiles as one model, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import lightgbm

from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.model.boosting.growing_trees import files_of_trees
from trainwright.model.boosting.lightgbm_text import check_model_text
from trainwright.model.boosting.lightgbm_trees import Boosted
from trainwright.model.tree_growth import CurvePoint

_ABOUT = "boosting.json"


class SeveralBoosted:
    """Trees of each, truncated at their own best iteration."""

    __slots__ = ()

    each: tuple[Boosted, ...]
    metric: str
    curve: tuple[CurvePoint, ...]

    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Trees of all."""
        return sum(one.trees for one in self.each)

    @property
    def splits(self) -> int:
        """Splits of all trees."""
        return sum(one.splits for one in self.each)

    def _write(self, folder: Path, outputs: int, own: Json) -> None:
        """Write the trees of each in LightGBM's own text format, those of the first as `model.txt`,
        and `boosting.json`."""
        for name, one in zip(files_of_trees(len(self.each)), self.each, strict=True):
            write_text(folder / name, one.booster.model_to_string())
        about: Json = {
            "outputs": outputs,
            **own,
            "metric": self.metric,
            "curve": [[point.trees, point.train, point.validation] for point in self.curve],
            "kept": [one.trees for one in self.each],
        }
        write_json(folder / _ABOUT, about)


def read_about(folder: Path) -> Json:
    """What `boosting.json` of a folder says."""
    return read_json(folder / _ABOUT)


def read_several(
    folder: Path, about: Json, count: int, outputs: int
) -> tuple[tuple[Boosted, ...], str, tuple[CurvePoint, ...]]:
    """The models, their metric and their curve.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    texts = [(folder / name).read_text(encoding="utf-8") for name in files_of_trees(count)]
    for text in texts:
        check_model_text(text, outputs)
    metric = str(about["metric"])
    each = tuple(Boosted(lightgbm.Booster(model_str=text), outputs, metric) for text in texts)
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
    return each, metric, curve
