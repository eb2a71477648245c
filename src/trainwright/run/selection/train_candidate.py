"""Trainings of one candidate: one, or one a fold; each in a folder of its own, so that an
interrupted run goes on in the one in which it stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from trainwright.core.files import Json, damage_in, hash_bytes, hash_value, read_json, write_json
from trainwright.core.formatting import show_seconds
from trainwright.data.base.inputs import Floats
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.encoders.rows_encoder import RowsEncoder
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.types import Prepared
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.ensemble_scorer import EnsembleScorer, Member, SecondLevel
from trainwright.predictor.latency import measure_megabytes, time_predictions
from trainwright.predictor.predictor import Predictor
from trainwright.run.learners.inner_training import inner_predictor
from trainwright.run.learners.learner import Learner
from trainwright.run.run_context import RunContext
from trainwright.run.selection.candidate_learner import (
    CandidateLearner,
    DummyLearner,
    HoldOut,
    NoTimeLeft,
)
from trainwright.run.selection.cut_to_time import TimeLeft, read_cut
from trainwright.run.selection.ladder import Rung, read_rung, write_rung
from trainwright.tracking.checksums import remove_unfinished_of_run
from trainwright.tracking.run_folder import RunFolder

TIMED_CALLS, _TIMED_SECONDS = 30, 1.0
"""Predictions of one row by which candidates are compared, and the seconds that end them."""


@final
@dataclass(frozen=True, slots=True)
class TrainedCandidate:
    """A rung with its models, one a training, and their scores of the compared rows, [N, C] or
    [N, 1]; without models if it was skipped."""

    rung: Rung
    predictors: tuple[Predictor, ...]
    scores: Floats

    @property
    def name(self) -> str:
        """Name of the candidate."""
        return self.rung.name

    def members(self, weight: float) -> list[Member]:
        """Its models as members of an ensemble, in which it has this weight."""
        share = weight / len(self.predictors)
        return [
            Member(f"{self.name}-{number:02d}", self.name, share, one)
            for number, one in enumerate(self.predictors, 1)
        ]


@final
@dataclass(frozen=True, slots=True)
class CandidateSetup:
    """What the trainings of all candidates share; `percentile` is that of their latencies."""

    prepared: Prepared
    division: HoldOut
    run: RunContext
    left: TimeLeft
    percentile: float


def train_candidate(name: str, plan: Plan | None, setup: CandidateSetup) -> TrainedCandidate:
    """Train a candidate; one that is finished is read. Without a plan it is the dummy.

    Raises:
        Interrupted: the run can be resumed. StorageFailed: the disk.
    """
    version, folder = _version(plan, setup), setup.run.folder.candidate(name)
    model = plan.contract.model.model_dump(mode="json") if plan else {}
    kept = read_rung(folder, version)
    if kept and kept[0].skipped:
        return _skipped(kept[0])
    begun = _begun(folder, version, setup.left)
    try:
        predictors, notes, cut = _train(name, plan, version, setup)
    except NoTimeLeft as error:
        rung = Rung(name, version, model, str(error))
        write_rung(folder, rung)
        return _skipped(rung)
    seconds = setup.left.used() - begun
    scores = _score(predictors, setup.division)
    if kept:
        return TrainedCandidate(kept[0], predictors, scores)
    rung = _measured(name, predictors, setup)
    rung = replace(rung, version=version, model=model, seconds=seconds, notes=notes, cut=cut)
    write_rung(folder, rung)
    return TrainedCandidate(rung, predictors, scores)


def seeded_plans(plan: Plan) -> dict[str, Plan]:
    """Plans of the candidates of a selection, with its seed."""
    seed = {"seed": plan.contract.seed}
    return {
        name: replace(one, contract=one.contract.model_copy(update=seed))
        for name, one in plan.candidates.items()
        if isinstance(one, Plan)
    }


def not_trained(name: str, why: str) -> TrainedCandidate:
    """A candidate that cannot be trained."""
    return _skipped(Rung(name, "", {}, why))


def as_predictor(
    members: Sequence[Member], prepared: Prepared, levels: Sequence[SecondLevel] = ()
) -> Predictor:
    """A single model itself; several, or one below a second level, as an ensemble that reads
    typed rows."""
    if len(members) == 1 and not levels:
        return members[0].predictor
    features = RowsEncoder(TableEncoder.of_kind(prepared.features))
    return Predictor(features, prepared.target, EnsembleScorer(members, levels))


def measure_members(
    name: str,
    members: Sequence[Member],
    megabytes: float,
    setup: CandidateSetup,
    levels: Sequence[SecondLevel] = (),
) -> Rung:
    """Latency of a model of these members, whose bundles have this size."""
    predictor = as_predictor(members, setup.prepared, levels)
    times = time_predictions(predictor, setup.prepared.validation, TIMED_CALLS, _TIMED_SECONDS)
    return Rung(
        name=name,
        version="",
        model={},
        latency_ms=float(np.percentile(times.row_ms, setup.percentile)),
        batch_ms=times.batch_ms,
        batch_rows=times.batch_rows,
        megabytes=megabytes,
    )


def _train(
    name: str, plan: Plan | None, version: str, setup: CandidateSetup
) -> tuple[tuple[Predictor, ...], tuple[str, ...], str]:
    division, found, notes = setup.division, list[Predictor](), dict[str, None]()
    cuts = list[str]()
    share = setup.left.share(name)
    end, started = setup.left.used() + share, setup.left.used()
    for number in range(division.count):
        folder = setup.run.folder.of_candidate(name, number + 1, version)
        remove_unfinished_of_run(folder)
        seconds = (end - setup.left.used()) / (division.count - number)
        if seconds <= 0 and not (folder.bundle / MANIFEST).is_file():
            took = show_seconds(setup.left.used() - started)
            raise NoTimeLeft(f"after {number} of {division.count} trainings in {took}")
        learner: Learner = DummyLearner(division, number)
        if plan is not None:
            learner = CandidateLearner(plan, division, number, seconds)
        predictor, said = inner_predictor(learner, setup.prepared, setup.run, folder)
        found.append(predictor)
        notes |= dict.fromkeys(said)
        cuts += _cuts(folder)
    return tuple(found), tuple(notes), _said_of_cuts(cuts, division.count)


def _cuts(folder: RunFolder) -> Iterator[str]:
    """What the time has left of a training."""
    if said := read_cut(folder.path).said:
        yield said
    elif read_json(folder.bundle / MANIFEST)["about"]["ended"] == "budget":
        yield "before its end"


def _said_of_cuts(cuts: Sequence[str], trainings: int) -> str:
    if not cuts or trainings == 1:
        return "".join(cuts)
    return f"{len(cuts)} of {trainings} trainings, the first to {cuts[0]}"


def _score(predictors: Sequence[Predictor], division: HoldOut) -> Floats:
    found = []
    for number, one in enumerate(predictors):
        features = FrameEncoding.of_kind(one.features)
        found.append(one.score(features.transform(division.scored_part(number).frame)))
    return np.asarray(np.concatenate(found), np.float64)


def _measured(name: str, predictors: tuple[Predictor, ...], setup: CandidateSetup) -> Rung:
    one = TrainedCandidate(Rung(name, "", {}), predictors, np.zeros((0, 1)))
    bundles = setup.run.folder.candidate(name).glob("*/bundle")
    megabytes = sum(measure_megabytes(bundle) for bundle in bundles)
    return measure_members(name, one.members(1.0), megabytes, setup)


def _skipped(rung: Rung) -> TrainedCandidate:
    return TrainedCandidate(rung, (), np.zeros((0, 1)))


def _begun(folder: Path, version: str, left: TimeLeft) -> float:
    """Seconds of the selection at which the candidate was begun, also by an earlier attempt."""
    path = folder / "begun.json"
    if path.is_file():
        with damage_in(path):
            content = read_json(path)
            if content["version"] == version:
                return float(content["used_seconds"])
    used = left.used()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, {"version": version, "used_seconds": used})
    return used


def _version(plan: Plan | None, setup: CandidateSetup) -> str:
    """Digest of everything that decides the bits of a candidate besides the time."""
    contract = plan.contract.model_dump(mode="json") if plan else {}
    settings: dict[str, Json] = {
        key: contract.get(key) for key in ("model", "training", "seed", "split_seed", "metric")
    }
    features = contract.get("data", {}).get("features", {})
    held = [hash_bytes(rows.tobytes()) for rows in setup.division.held_out]
    data = {"prepared": setup.prepared.version, "features": features, "held_out": held}
    return hash_value({**settings, **data})
