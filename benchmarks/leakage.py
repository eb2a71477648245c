"""How often a verdict is invalid on tables with a leak and on honest tables.

Each table is drawn anew, trained on by boosting (150 trees at most) with the split that its
contract names, and judged on its test rows. The truth is the same kind of model on fresh rows as
they are met in use: other persons, later days, rows that are no copies, without a column that is
not known yet. The target lies where it hurts. With a leak it is drawn between the score and the
truth (or the score of a constant prediction, if that is better), so that the clause is met and the
decision is wrong; a table on which the leak lifts the
score by less than its interval is drawn again. On an honest table it is drawn between the
pessimistic end of the interval and halfway to the score of a constant prediction, so that the
clause is met and nothing but an alarm could change that. A column without the name of a group is
looked at from 100 values on: a group of fewer is found by its name only.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

import page
from leaks.tables import HONEST, LEAKING, TARGET, Made, Maker
from trainwright.contract.sections.metric import METRICS
from trainwright.core.progress import StopFlag
from trainwright.data.labelled_part import read_part
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.verdict import Verdict, judge
from trainwright.predictor.predictor import Predictor
from trainwright.run.audit_data import Looked, look_at_data
from trainwright.run.judging.judge import HeldOut, try_audited
from trainwright.run.learners.learner import build_learner
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

_MODEL = {"kind": "boosting", "max_trees": 150, "learning_rate": 0.1, "early_stopping_rounds": 30}
_RESAMPLES = 200
_MOST_DRAWS = 5
"""Tables that are drawn for one on which the leak matters."""


@dataclass(frozen=True)
class Trained:
    """A model that was trained and judged on its test rows."""

    ready: Ready
    predictor: Predictor
    scored: Scored
    evaluation: Evaluation
    found: Looked

    @property
    def metric(self) -> str:
        return self.ready.plan.contract.metric.name

    @property
    def sign(self) -> float:
        """1 where larger is better."""
        return 1.0 if METRICS[self.metric].direction == "max" else -1.0

    def on(self, frame: pl.DataFrame) -> float:
        """The metric on other rows."""
        cells = pl.read_csv(frame.write_csv().encode(), infer_schema=False)
        part = read_part(cells, self.ready.prepared.table, self.predictor.target)
        positive = getattr(self.predictor.target, "positive", 0)
        answers = answers_of(part.target, self.predictor.score(part.inputs), positive)
        return measure(self.metric, answers, self.ready.plan.contract.metric)

    def judged(self, target: float) -> Verdict:
        """The verdict with another target, and the findings tried."""
        contract = self.ready.plan.contract
        metric = contract.metric.model_copy(update={"target": target})
        changed = contract.model_copy(update={"metric": metric})
        ready = replace(self.ready, plan=replace(self.ready.plan, contract=changed))
        verdict = judge(metric, (), self.evaluation)
        return try_audited(ready, self.scored, verdict, HeldOut(()), self.found.audited)


def train(made: Made, folder: Path, exclude: tuple[str, ...] = ()) -> Trained:
    """Prepare, look, fit and measure, without a run folder."""
    made.rows.write_csv(folder / "rows.csv")
    contract: Mapping[str, Any] = {
        "data": {
            "path": "rows.csv",
            "target": TARGET,
            "exclude": list(exclude),
            "split": dict(made.split),
            "reading": {"cache": "off"},
        },
        "model": _MODEL,
        "metric": {"target": "baseline", "resamples": _RESAMPLES},
    }
    (folder / "contract.yaml").write_text(yaml.safe_dump(contract))
    screen = StreamScreen(io.StringIO())
    ready = make_ready(Request(folder / "contract.yaml"), StageTimes(), screen)
    own = Path(tempfile.mkdtemp(prefix="run-", dir=folder))  # trees that are kept are its own
    run = RunContext(RunFolder(own), (), screen, StopFlag())
    predictor = build_learner(ready.plan).fit(ready.prepared, run).predictor
    prepared, decided = ready.prepared, ready.plan.contract
    scored = Scored(
        prepared.test,
        prepared.target,
        predictor.score(prepared.test.inputs),
        fit_baselines(prepared).scores(prepared.test),
    )
    evaluation = evaluate(scored, decided.metric, (), decided.seed)
    return Trained(ready, predictor, scored, evaluation, look_at_data(ready))


@dataclass(frozen=True)
class Case:
    """One table: whether its verdict was invalid, and what was measured of findings beside."""

    invalid: bool
    warned: bool


def with_a_leak(maker: Maker, seed: int, folder: Path) -> Case | None:
    """A table whose leak decides; none where no draw had one that matters."""
    for draw in range(_MOST_DRAWS):
        random = np.random.default_rng([seed, draw])
        made = maker(random)
        trained = train(made, folder)
        honest = train(made, folder, made.hidden) if made.hidden else trained
        truth = trained.sign * honest.on(made.fresh)
        score = trained.evaluation.metrics[trained.metric]
        sure = min(trained.sign * score.low, trained.sign * score.high)
        nothing = trained.sign * trained.evaluation.baselines["dummy"][trained.metric].value
        truth = max(truth, nothing)
        if sure <= truth:
            continue
        target = truth + random.uniform(0.1, 0.95) * (sure - truth)
        return case(trained.judged(trained.sign * target))
    return None


def honest(maker: Maker, seed: int, folder: Path) -> Case:
    """A table without a leak."""
    random = np.random.default_rng([seed, 0])
    trained = train(maker(random), folder)
    score = trained.evaluation.metrics[trained.metric]
    sure = min(trained.sign * score.low, trained.sign * score.high)
    nothing = trained.sign * trained.evaluation.baselines["dummy"][trained.metric].value
    target = sure - random.uniform(0, 0.5) * max(0.0, sure - nothing)
    return case(trained.judged(trained.sign * target))


def case(verdict: Verdict) -> Case:
    measured = any(one.outcome == "measured" for one in verdict.experiments)
    return Case(verdict.status == "invalid", measured)


def table(found: Mapping[str, list[Case]], what: str) -> str:
    """One line a kind of table, and all of them."""
    lines = [f"| {what} | tables | invalid | share | warned |", "| --- | --- | --- | --- | --- |"]
    every = [one for cases in found.values() for one in cases]
    for name, cases in {**found, "**all**": every}.items():
        invalid = sum(one.invalid for one in cases)
        warned = sum(one.warned and not one.invalid for one in cases)
        share = invalid / max(1, len(cases))
        lines.append(f"| {name} | {len(cases)} | {invalid} | {share:.1%} | {warned} |")
    return "\n".join(lines)


def share(found: Mapping[str, list[Case]]) -> float:
    every = [one.invalid for cases in found.values() for one in cases]
    return sum(every) / max(1, len(every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20, help="tables of each kind")
    parser.add_argument("--honest", type=int, default=40, help="honest tables of each kind")
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    leaking: dict[str, list[Case]] = {}
    clean: dict[str, list[Case]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, maker in LEAKING.items():
            if options.only in name:
                cases = [with_a_leak(maker, seed, folder) for seed in range(options.tables)]
                leaking[name] = [one for one in cases if one is not None]
                print(name, leaking[name].count(Case(True, False)), len(leaking[name]), flush=True)
        for name, maker in HONEST.items():
            if options.only in name:
                clean[name] = [honest(maker, seed, folder) for seed in range(options.honest)]
                print(name, sum(one.invalid for one in clean[name]), len(clean[name]), flush=True)
    found, alarms = share(leaking), share(clean)
    text = "\n\n".join(
        [
            __doc__ or "",
            table(leaking, "a leak decides"),
            table(clean, "honest"),
            f"Goals: {page.goal('invalid in at least 95% of the first', found >= 0.95)}; "
            f"{page.goal('in at most 1% of the second', alarms <= 0.01)}. Warned: a finding was "
            "measured and changes nothing.",
        ]
    )
    print(text)
    if options.write:
        packages = ("lightgbm", "scikit-learn", "polars")
        page.write_section("leakage", "Findings that make a verdict invalid", text, packages)


if __name__ == "__main__":
    main()
