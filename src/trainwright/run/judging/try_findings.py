"""Experiments on the audit's findings for a judged run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from trainwright.contract.sections.data import TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.model import Linear
from trainwright.contract.sections.tokens import TokenData
from trainwright.data.audit.audit_result import AuditResult
from trainwright.evaluation.evaluate import Evaluation, Scored
from trainwright.evaluation.experiments.copy_trials import JudgedCopies
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.experiments.fold_trials import JudgedTable
from trainwright.evaluation.experiments.run_experiments import try_findings, try_found_copies
from trainwright.evaluation.verdict import Verdict
from trainwright.run.prepare_run import Ready
from trainwright.run.repeats.train_folds import HeldOut


def try_audited(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    """Verdict with the results of the experiments."""
    contract, prepared = ready.plan.contract, ready.prepared
    folds = held_out.fold_of_rows(scored.part)
    match contract.data:
        case TableData() as section:
            table = JudgedTable(
                prepared=prepared,
                section=section,
                scored=scored,
                clauses=verdict.clauses,
                metric=contract.metric,
                slices=contract.slices,
                folds=folds,
                probe="linear" if isinstance(contract.model, Linear) else "boosting",
                seed=contract.seed,
            )
            return verdict.with_experiments(try_findings(table, audited))
        case ImageData() | TokenData() as section:
            judged = JudgedCopies(
                prepared=prepared,
                section=section,
                scored=scored,
                clauses=verdict.clauses,
                metric=contract.metric,
                slices=contract.slices,
                folds=folds,
                seed=contract.seed,
            )
            return verdict.with_experiments(try_found_copies(judged, audited))
        case _:
            assert_never(contract.data)


def with_warnings(evaluation: Evaluation, verdict: Verdict) -> Evaluation:
    """Evaluation with a warning for each measured finding that is not binding."""
    return replace(evaluation, warnings=(*warnings_of(verdict.experiments), *evaluation.warnings))
