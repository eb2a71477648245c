"""What the purpose of a contract demands, read back from the folder of the run: a clause each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from trainwright.contract.document import Contract
from trainwright.core.errors import Mistake
from trainwright.core.files import damage_in, read_json
from trainwright.core.formatting import many
from trainwright.data.base.messages import some
from trainwright.evaluation.clause import Clause, status_of
from trainwright.evaluation.evaluation_result import ALL_ROWS, Evaluation
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import read_description, verified_manifest
from trainwright.predictor.calibration import Calibration
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.model_files import read_baselines
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import inner_trainings

HELD = "held"
"""What a clause of a purpose measures: 1 if the run holds what is demanded, else 0."""

_ADAPTER = "adapter"


@final
@dataclass(frozen=True, slots=True)
class Demand:
    """One demand of a purpose, and what is wrong with it; empty if nothing is."""

    what: str
    wrong: str = ""


def judge_purpose(
    contract: Contract,
    predictor: Predictor,
    folder: RunFolder,
    test_rows: int,
    judged: tuple[Verdict, Evaluation],
) -> tuple[Verdict, Evaluation]:
    """Verdict with a clause for each demand of the contract's purpose, and evaluation with a
    warning for each that is not held. `test_rows` are all that the test part has."""
    verdict, evaluation = judged
    demands = list(_demands(contract, predictor, folder, test_rows))
    warnings = [
        f"{contract.purpose}: {one.what} missing: {one.wrong}" for one in demands if one.wrong
    ]
    return (
        verdict.with_clauses([_clause(contract.purpose, one) for one in demands]),
        replace(evaluation, warnings=(*evaluation.warnings, *warnings)),
    )


def _clause(purpose: str, demand: Demand) -> Clause:
    """A demand is exact: its interval is the value."""
    value = 0.0 if demand.wrong else 1.0
    interval = Interval(value, value, value)
    status = status_of(interval, 1.0, "max")
    return Clause(f"{purpose}: {demand.what}", HELD, ALL_ROWS, 1.0, interval, status)


def _demands(
    contract: Contract, predictor: Predictor, folder: RunFolder, test_rows: int
) -> Iterator[Demand]:
    match contract.purpose:
        case "production":
            yield _whole_bundle(folder)
            yield from _description(folder)
            yield from _calibration(contract, predictor.calibration)
        case "research":
            yield _every_prediction(folder, test_rows)
            yield _everything_tried(contract, folder)
        case "benchmark":
            yield _every_prediction(folder, test_rows)
            yield from _every_seed(contract, folder)
        case "adapter":
            yield _adapter_alone(contract, folder)
        case "unstated":
            pass


def _wrong_with(bundle: Path) -> str:
    """What is wrong with a bundle; empty if all its files are those that were written."""
    try:
        verified_manifest(bundle)
    except Mistake as mistake:
        return mistake.problems[-1].message
    return ""


def _whole_bundle(folder: RunFolder) -> Demand:
    return Demand("a whole bundle", _wrong_with(folder.bundle))


def _description(folder: RunFolder) -> Iterator[Demand]:
    """Profile for drift, and signature for inputs."""
    try:
        described = read_description(folder.bundle)
    except Mistake as mistake:
        yield Demand("an input signature and a training profile", mistake.problems[-1].message)
        return
    no_columns = "" if described.signature else "it names no column"
    yield Demand("an input signature", no_columns)
    profile = described.profile.get("training", {}) if described.profile else {}
    no_rows = "" if profile.get("rows") else "it has no training rows"
    yield Demand("a training profile", no_rows)


def _calibration(contract: Contract, found: Calibration) -> Iterator[Demand]:
    """Asked for and fitted, if only to show that none is better."""
    asked = contract.training.calibration
    if asked != "none":
        unfit = "" if found.rows or found else "it could not be fitted, as a warning says"
        yield Demand(f"a calibration ({asked})", unfit)


def _every_prediction(folder: RunFolder, test_rows: int) -> Demand:
    what = "predictions of every test row"
    try:
        found = len(read_predictions(folder).rows)
    except Mistake as mistake:
        return Demand(what, mistake.problems[-1].message)
    short = f"{found:,} of {many(test_rows, 'row')}"
    return Demand(what, short if found != test_rows else "")


def _everything_tried(contract: Contract, folder: RunFolder) -> Demand:
    """Models of folds, of other seeds and of candidates, and baselines."""
    tried = {
        f"{kind} {path.name}": path / folder.bundle.name
        for kind, path in inner_trainings(folder)
        if kind in ("fold", "seed")
    }
    if contract.model.is_selection:
        with damage_in(folder.ladder):
            names = [one["name"] for one in read_json(folder.ladder)["rungs"] if one["version"]]
        for name in names:
            trainings = sorted(folder.candidate(name).glob("[0-9]*"))
            tried |= {f"{name} {path.name}": path / folder.bundle.name for path in trainings}
    lost = [name for name, bundle in tried.items() if _wrong_with(bundle)]
    try:
        read_baselines(folder)
    except Mistake:
        lost.append("a baseline")
    return Demand("everything that was tried", f"no whole bundle of {some(lost)}" if lost else "")


def _every_seed(contract: Contract, folder: RunFolder) -> Iterator[Demand]:
    others = contract.training.seeds - 1
    if others:
        kinds = [path for kind, path in inner_trainings(folder) if kind == "seed"]
        there = sum(not _wrong_with(path / folder.bundle.name) for path in kinds)
        short = "" if there == others else f"models of {there} of {others} other seeds"
        yield Demand(f"models of {contract.training.seeds} seeds", short)


def _adapter_alone(contract: Contract, folder: RunFolder) -> Demand:
    """Weights of an adapter, and of its base the SHA-256."""
    what, base = "an adapter alone, with the SHA-256 of its base", contract.model.base_weights
    try:
        manifest = verified_manifest(folder.bundle)
    except Mistake as mistake:
        return Demand(what, mistake.problems[-1].message)
    if manifest["kind"] != _ADAPTER:
        return Demand(what, f"the bundle is one of kind {manifest['kind']}")
    if len(list(folder.bundle.rglob("*.safetensors"))) != 1:
        return Demand(what, "other weights lie beside it")
    said = (folder.bundle / "network.json").read_text(encoding="utf-8")
    return Demand(what, "" if base and base in said else "the bundle does not name its base")
