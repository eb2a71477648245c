"""The findings of the audit tried on a judged run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainwright.contract.data import TableData
from trainwright.contract.model import Linear
from trainwright.data.audit.audited import Audited
from trainwright.data.features import Features
from trainwright.evaluation.evaluate import Evaluation, Scored
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.experiments.trials import JudgedTable
from trainwright.evaluation.experiments.trying import try_findings
from trainwright.evaluation.verdict import Verdict
from trainwright.run.folds import HeldOut
from trainwright.run.ready import Ready


def try_audited(
    ready: Ready, scored: Scored, verdict: Verdict, held_out: HeldOut, audited: Sequence[Audited]
) -> Verdict:
    """The verdict with what was tried; data that is no table has nothing to try."""
    contract, prepared = ready.plan.contract, ready.prepared
    if not (isinstance(contract.data, TableData) and isinstance(prepared.features, Features)):
        return verdict
    judged = JudgedTable(
        prepared=prepared,
        section=contract.data,
        scored=scored,
        clauses=verdict.clauses,
        metric=contract.metric,
        slices=contract.slices,
        folds=held_out.fold_of_rows(scored.part),
        probe="linear" if isinstance(contract.model, Linear) else "boosting",
        seed=contract.seed,
    )
    return verdict.with_experiments(try_findings(judged, audited))


def with_warnings(evaluation: Evaluation, verdict: Verdict) -> Evaluation:
    """The evaluation with a warning for each finding that was measured and binds nothing."""
    return replace(evaluation, warnings=(*warnings_of(verdict.experiments), *evaluation.warnings))
