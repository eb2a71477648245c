"""The gate before a version is put into use, by figures measured now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS
from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import hash_file
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.dispatch import modality_of
from trainwright.evaluation.candidates.compare_candidates import ComparedRows, compare_candidates
from trainwright.evaluation.clause import Status, gain_status, status_of
from trainwright.evaluation.evaluate import Scored, evaluate, find_slices
from trainwright.evaluation.evaluation_result import ALL_ROWS
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.verdict import judge
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.predictor import Predictor
from trainwright.registry.gate import FEWEST_ROWS, Decision, GateClause, decide_gate
from trainwright.registry.registry import CHALLENGER, CHAMPION, Registry, Version
from trainwright.run.after.evaluate_rows import reading_of
from trainwright.run.folder.check_own_files import check_own, read_own_bundle
from trainwright.run.folder.model_files import trained_mask
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.judging.judge import judge_serving
from trainwright.run.releases.register import version_folder
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class Promotion:
    """What the gate decided, by which clauses; `before` is the number of the version that was in
    use, 0 if none."""

    version: Version
    decision: Decision
    clauses: Sequence[GateClause]
    before: int


@final
@dataclass(frozen=True, slots=True)
class JudgedVersion:
    """A version on the labelled rows of the gate: its model, contract and scores [N, C], and which
    rows [N] its run was trained or validated on."""

    version: Version
    contract: Contract
    predictor: Predictor
    part: Part
    scores: Floats
    known_rows: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, version: Version, data: str, artifacts: Path) -> JudgedVersion:
        """Read and score the rows of a file.

        Raises:
            Mistake: they cannot be read, or the run does not know its own rows.
        """
        folder = RunFolder(version_folder(version, artifacts))
        contract, predictor = read_planned(folder), read_own_bundle(folder)
        modality, reading = modality_of(contract.data.kind), reading_of(contract, ())
        features, target = predictor.features, predictor.target
        part = modality.read_labelled(data, features, target, contract.data, reading).part
        known_rows = trained_mask(part, features, folder, or_validated=True)
        if known_rows is None:
            raise Mistake(
                Problem(
                    f"{version.label} does not know which rows it was trained on",
                    found=f"{contract.data.kind} data, without hashes of rows",
                    expected="tables or images of at most ten million training rows",
                )
            )
        return cls(version, contract, predictor, part, predictor.score(part.inputs), known_rows)

    def check_alike(self, other: JudgedVersion) -> None:
        """Check that the same rows, classes and metric are judged.

        Raises:
            Mistake: they are not.
        """
        facts = [
            (one.part.rows.tolist(), one.predictor.target.classes, one.contract.metric.name)
            for one in (self, other)
        ]
        names = ("rows", "classes", "metric")
        differing = [name for name, *pair in zip(names, *facts, strict=True) if pair[0] != pair[1]]
        if differing:
            raise Mistake(
                Problem(
                    f"{self.version.label} and {other.version.label} are not judged alike",
                    found=f"they differ in their {', '.join(differing)}",
                    expected="contracts of one target, metric and way to read rows",
                    fix="register it under another name",
                )
            )

    def slice_clauses(self, rows: Integers) -> Iterator[GateClause]:
        """Each slice that has a floor, on some of the rows."""
        contract, part, scores = self.contract, self.part, self.scores[rows]
        if all(section.floor == "none" for section in contract.slices):
            return
        part = replace(
            part,
            frame=part.frame[rows],
            inputs=part.inputs.take(rows),
            target=part.target[rows],
            rows=part.rows[rows],
            units=part.units[rows],
        )
        decided = self.predictor.decide(scores)
        scored = Scored(part, self.predictor.target, scores, decided=decided)
        evaluation = evaluate(scored, contract.metric, contract.slices, contract.seed)
        for clause in judge(contract.metric, contract.slices, evaluation).clauses:
            if clause.slice != ALL_ROWS:
                yield GateClause(clause.name, clause.status, clause.interval.bounds)

    def gain_over(self, other: JudgedVersion, rows: Integers) -> Interval:
        """The metric minus that of another on some of the rows, with the interval of the paired
        difference."""
        part, target, contract = self.part, self.predictor.target, self.contract
        compared = ComparedRows(
            part.target[rows], part.units[rows], target.positive_code, costs=target.costs
        )
        scores = {CHAMPION: other.scores[rows], CHALLENGER: self.scores[rows]}
        metric, seed = contract.metric, contract.seed
        return compare_candidates(scores, compared, metric, seed, CHAMPION)[CHALLENGER].gain

    def clauses_against(
        self, champion: JudgedVersion, rows: Integers, margin: float
    ) -> Iterator[GateClause]:
        """Better than the version in use on these rows, and on no slice worse beyond noise."""
        name = self.contract.metric.name
        direction = METRICS[name].direction
        least = margin if direction == "max" else -margin
        gain = self.gain_over(champion, rows)
        beyond = Interval(*(bound - least for bound in (gain.value, gain.low, gain.high)))
        sign = ">" if direction == "max" else "<"
        asked = f"{name} minus that of {champion.version.label} {sign} {show_number(least)}"
        yield GateClause(asked, gain_status(beyond, direction), _show(gain))
        for part in find_slices(self.contract.slices, self.part.frame):
            of_slice = np.intersect1d(part.rows, rows)
            if len(of_slice) < self.contract.slices[part.number].min_rows:
                continue
            gain = self.gain_over(champion, of_slice)
            is_worse = status_of(gain, 0.0, direction) == "missed"
            status: Status = "missed" if is_worse else "met"
            yield GateClause(f"not worse on {part.name}", status, _show(gain))


def promote(
    reference: str, data: str, registry: Registry, margin: float, why: str = ""
) -> Promotion:
    """Put a version of a model into use if it passes the gate, and log what was decided.

    It and the version in use are judged on the labelled rows of a file, without the training
    and validation rows of either. `margin`, in the unit of the metric, is by how much it has to be
    better, over the whole interval of the paired difference.

    Raises:
        Mistake: there is no such version, or the rows cannot be judged by it.
    """
    state, artifacts = registry.read(), registry.artifacts
    version = state.find(reference)
    number = state.aliases.get((version.model, CHAMPION), 0)
    if number == version.number:
        raise Mistake(Problem(f"{version.label} is in use already", path=reference))
    clauses = list(_own_clauses(version, artifacts))
    if decide_gate(clauses) != "refused":
        champions = [state.find(f"{version.model}:{number}")] if number else []
        clauses += _judge_on(data, version, champions, artifacts, margin)
    decision = decide_gate(clauses)
    before = registry.record_gate(version, decision, list(map(asdict, clauses)), why)
    return Promotion(version, decision, clauses, before)


def _own_clauses(version: Version, artifacts: Path) -> Iterator[GateClause]:
    """Its files are whole, its contract was met, and it is meant to be used."""
    folder = RunFolder(version_folder(version, artifacts))
    try:
        if hash_file(folder.bundle / MANIFEST) != version.bundle:
            raise StorageFailed(f"{folder.bundle / MANIFEST} is not the one that was registered")
        check_own(folder)
        read_own_bundle(folder)
    except (Mistake, OSError, StorageFailed) as error:
        yield GateClause("files as registered", "missed", str(error))
        return
    yield GateClause("files as registered", "met", f"bundle {version.bundle[:12]}")
    verdict = read_judged(folder).verdict.status
    yield GateClause("verdict of its run", "missed" if verdict == "invalid" else verdict, verdict)
    purpose = version.purpose
    meant: Status = "met" if purpose == "production" else "missed"
    yield GateClause("purpose is production", meant, purpose)


def _judge_on(
    data: str, version: Version, champions: Sequence[Version], artifacts: Path, margin: float
) -> Iterator[GateClause]:
    """Clauses on labelled rows that the runs of neither version have learned or chosen by."""
    judged, *others = (JudgedVersion.of(one, data, artifacts) for one in (version, *champions))
    for champion in others:
        judged.check_alike(champion)
    new_rows = np.flatnonzero(~np.any([one.known_rows for one in (judged, *others)], axis=0))
    status: Status = "met" if len(new_rows) >= FEWEST_ROWS else "undecided"
    counts = f"{len(new_rows):,} of {len(judged.part):,} are new"
    yield GateClause(f"at least {FEWEST_ROWS} new rows", status, counts)
    if not len(new_rows):
        return
    yield from judged.slice_clauses(new_rows)
    folder = RunFolder(version_folder(version, artifacts))
    for clause in judge_serving(folder, judged.part, judged.contract):
        yield GateClause(clause.name, clause.status, clause.interval.bounds)
    for champion in others:
        yield from judged.clauses_against(champion, new_rows, margin)


def _show(interval: Interval) -> str:
    return f"{show_number(interval.value)} ({interval.bounds})"
