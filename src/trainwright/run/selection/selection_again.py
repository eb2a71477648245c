"""Second training of the candidates of a kept model, on training and validation rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, final

from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model.selection import DUMMY_CANDIDATE
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.files import Json, hash_value, read_json
from trainwright.data.encode_again import encode_again
from trainwright.data.types import Prepared
from trainwright.model.baselines.dummy import fit_constant
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.ensemble_scorer import EnsembleScorer, Member, SecondLevel
from trainwright.predictor.predictor import Predictor
from trainwright.run.learners.inner_training import inner_predictor, plan_again_with
from trainwright.run.learners.learner import Learner, build_uncalibrated
from trainwright.run.library_fit import Fitted
from trainwright.run.run_context import RunContext
from trainwright.run.selection.candidate_learner import (
    SHARE_OF_STEPS,
    HoldOut,
    plain_plan,
    shortened,
)
from trainwright.run.selection.cut_to_time import UNCUT, Cut, TimeLeft, is_decided, read_cut
from trainwright.run.selection.train_candidate import as_predictor, seeded_plans
from trainwright.tracking.checksums import remove_unfinished_of_run
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class SelectionAgain:
    """Trains each candidate of a kept model once on all rows, as long as its first models took in
    the mean. The weights, and the second level, stay those of the first models; those of a
    candidate stay in the place of a second one that the budget ended. `first_rows` are the training
    rows of a first model, `cuts` what the time had left of each candidate, `rounds` the trees of
    each of several targets, none of a candidate whose targets share theirs. `seconds` are what the
    selection has left for all of them, divided by what each took before, `took`; a second training
    needs `factor` times as much."""

    plan: Plan
    members: tuple[Member, ...]
    levels: tuple[SecondLevel, ...]
    first_rows: int
    of_candidate: Mapping[str, int]
    cuts: Mapping[str, Cut]
    rounds: Mapping[str, tuple[int, ...]]
    took: Mapping[str, float]
    factor: float
    seconds: float

    @classmethod
    def of(cls, plan: Plan, fitted: Fitted, prepared: Prepared, run: RunContext) -> Self:
        """Of what a selection has fitted to these rows in the folder of a run."""
        folder = run.folder
        scorer = fitted.predictor.scorer
        levels: tuple[SecondLevel, ...] = ()
        if isinstance(scorer, EnsembleScorer):
            members, levels = scorer.members, scorer.levels
        else:
            name = str(read_json(folder.ladder)["chosen"])
            members = (Member(f"{name}-01", name, 1.0, fitted.predictor),)
        names = list(dict.fromkeys(member.group for member in members))
        division = HoldOut.of(plan.contract, prepared)
        rows = len(division.pool) - len(division.held_out[0])
        lengths = {name: _mean_length(folder.candidate(name)) for name in names}
        cuts = {name: read_cut(folder.candidate(name) / "01") for name in names}
        rounds = {name: _mean_rounds(folder.candidate(name)) for name in names}
        rungs = {str(one["name"]): one["seconds"] for one in read_json(folder.ladder)["rungs"]}
        took = {name: max(1e-3, float(rungs[name])) for name in names}
        seconds = 2 * plan.training_seconds - run.spent.used(folder.full_name)
        factor = len(division.pool) / rows / division.count
        return cls(plan, members, levels, rows, lengths, cuts, rounds, took, factor, seconds)

    @property
    def lengths(self) -> Json:
        """What decides the second models besides the rows."""
        cuts = {name: dict(cut.settings) for name, cut in self.cuts.items()}
        rounds = {name: list(each) for name, each in self.rounds.items() if each}
        several: dict[str, Json] = {"rounds": rounds} if rounds else {}
        return {"lengths": dict(self.of_candidate), "cuts": cuts, **several}

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train; finished candidates of an earlier attempt are read.

        Raises:
            Interrupted: the run can be resumed.
        """
        name = run.folder.full_name
        version = hash_value({"data": prepared.version, "length": self.lengths})
        with run.spent.training(name):
            left = TimeLeft(self.seconds, self.took, lambda: run.spent.used(name))
            members, notes = list[Member](), list[str]()
            for one in self.of_candidate:
                folder = run.folder.of_candidate(one, 1, version)
                found, said = self._again(one, prepared, replace(run), folder, left.share(one))
                members += found
                notes += said
        predictor = as_predictor(members, prepared, self.levels)
        return Fitted(predictor, "finished", "trained again", tuple(dict.fromkeys(notes)))

    def _again(
        self, name: str, prepared: Prepared, run: RunContext, folder: RunFolder, seconds: float
    ) -> tuple[list[Member], tuple[str, ...]]:
        first = [member for member in self.members if member.group == name]
        remove_unfinished_of_run(folder)
        learner: Learner = ConstantAgain()
        if name != DUMMY_CANDIDATE:
            learner = CandidateAgain(
                seeded_plans(self.plan)[name],
                (self.of_candidate[name], self.rounds[name]),
                self.first_rows,
                LimitAgain(self.cuts[name], seconds, self.factor * self.took[name]),
            )
        predictor, notes = inner_predictor(learner, prepared, run, folder)
        if read_json(folder.bundle / MANIFEST)["about"]["ended"] == "budget":
            return first, (f"{name}: the budget ended the second training, the first models stay",)
        weight = math.fsum(member.weight for member in first)
        return [Member(f"{name}-01", name, weight, predictor)], notes


@final
class ConstantAgain:
    """Class shares, or the mean, of all rows."""

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:  # noqa: ARG002
        """Count."""
        constant = fit_constant(prepared.train.target, prepared.target.outputs)
        return Fitted(
            Predictor(prepared.features, prepared.target, constant), "finished", "a constant"
        )


@final
@dataclass(frozen=True, slots=True)
class LimitAgain:
    """What the time had left of a candidate, the seconds of its second training, and those that it
    needs to be no more than that."""

    cut: Cut
    seconds: float
    needed: float

    def settle(self, model: ModelSection, folder: Path) -> Cut:
        """What the time leaves now of what it had cut: more, if there is more. Decided once, so
        that a resumed training keeps it."""
        if is_decided(folder):
            return read_cut(folder)
        cut = self.cut
        if cut.share:
            share = cut.share * max(1.0, SHARE_OF_STEPS * self.seconds / self.needed)
            cut = next(shortened(model, share), cut) if share < 1 else UNCUT
            cut.write(folder)
        return cut


@final
class CandidateAgain:
    """The second training of a candidate, of a `length` in all and of each of several targets."""

    def __init__(
        self, plan: Plan, length: tuple[int, tuple[int, ...]], first_rows: int, limit: LimitAgain
    ) -> None:
        self._plan = plan
        self._length, self._rounds = length
        self._first_rows = first_rows
        self._limit = limit

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Encode all rows as the candidate reads them, and train."""
        model, folder = self._plan.contract.model, run.folder.path
        plan = self._limit.settle(model, folder).of_plan(self._plan)
        section, seed = TableData.of(plan.contract.data), plan.contract.split_seed
        encoded = encode_again(prepared, section, seed)
        if plan.contract.model.is_loop_trained:
            plan = plain_plan(plan, encoded)
        plan = plan_again_with(plan, self._length, self._first_rows)
        used = run.spent.used(run.folder.full_name)
        limit = replace(plan.allotment, training_seconds=self._limit.seconds + used)
        again = build_uncalibrated(replace(plan, allotment=limit), self._rounds)
        return again.fit(encoded, run)


def _mean_length(folder: Path) -> int:
    """Rounds or updates of the first models of a candidate, in the mean; 0 for those without."""
    found = list(_lengths(folder))
    return round(sum(found) / len(found)) if found else 0


def _mean_rounds(folder: Path) -> tuple[int, ...]:
    """Trees of each target of the first models of a candidate, in the mean."""
    found = [tuple(map(int, one.get("rounds", ()))) for one in _abouts(folder)]
    several = [one for one in found if one]
    return tuple(max(1, round(sum(of) / len(of))) for of in zip(*several, strict=True))


def _lengths(folder: Path) -> Iterator[int]:
    for about in _abouts(folder):
        yield int(about.get("length", 0))


def _abouts(folder: Path) -> Iterator[Mapping[str, Json]]:
    for manifest in sorted(folder.glob(f"*/bundle/{MANIFEST}")):
        yield read_json(manifest)["about"]
