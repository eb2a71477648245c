"""The baselines of a run, kept as bundles beside its own."""

from __future__ import annotations

from trainwright.evaluation.baselines import Baselines
from trainwright.predictor.bundle import read_bundle, write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.own_files import check_own
from trainwright.tracking.folder import RunFolder

_FOLDER = "baselines"
_NAMES = ("dummy", "linear")


def write_baselines(baselines: Baselines, folder: RunFolder) -> None:
    """Keep both, so that the run can be held against them on any rows later."""
    root = folder.path / _FOLDER
    root.mkdir(exist_ok=True)
    for name, predictor in zip(_NAMES, (baselines.dummy, baselines.linear), strict=True):
        write_bundle(predictor, root / name, {"run": folder.name, "baseline": name})


def read_baselines(folder: RunFolder) -> dict[str, Predictor]:
    """The baselines of a run that came to its verdict."""
    check_own(folder, _FOLDER)
    return {name: read_bundle(folder.path / _FOLDER / name) for name in _NAMES}
