"""Experiments on the audit's findings for a judged run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.audit.audit_result import AuditResult
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.experiments.experiment import warnings_of
from trainwright.evaluation.experiments.suspects import suspicions_of
from trainwright.evaluation.scored_part import Scored
from trainwright.evaluation.verdict import Verdict
from trainwright.run.judging.held_out import HeldOut
from trainwright.run.prepare.ready_run import Ready


def try_audited(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    """Verdict with the results of the experiments."""
    is_classes = ready.prepared.target.task in ("classification", "multilabel")
    if not suspicions_of(audited, ready.plan.contract.data, is_classes=is_classes):
        return verdict.with_experiments(())
    trial = EXPERIMENTS.get(ready.plan.contract.data.kind, _try_copies)
    return trial(ready, scored, verdict, held_out, audited)


def _try_table(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    # Imported here: most data has nothing to try.
    from trainwright.evaluation.experiments.judged_table import JudgedTable
    from trainwright.evaluation.experiments.run_experiments import try_findings

    contract = ready.plan.contract
    table = JudgedTable(
        prepared=ready.prepared,
        section=TableData.of(contract.data),
        scored=scored,
        clauses=verdict.clauses,
        metric=contract.metric,
        slices=contract.slices,
        folds=held_out.fold_of_rows(scored.part),
        probe="linear" if contract.model.traits.is_linear else "boosting",
        seed=contract.seed,
    )
    return verdict.with_experiments(try_findings(table, audited))


def _try_copies(
    ready: Ready,
    scored: Scored,
    verdict: Verdict,
    held_out: HeldOut,
    audited: Sequence[AuditResult],
) -> Verdict:
    from trainwright.evaluation.experiments.copy_trials import JudgedCopies
    from trainwright.evaluation.experiments.run_experiments import try_found_copies

    contract = ready.plan.contract
    judged = JudgedCopies(
        prepared=ready.prepared,
        section=contract.data,
        scored=scored,
        clauses=verdict.clauses,
        metric=contract.metric,
        slices=contract.slices,
        folds=held_out.fold_of_rows(scored.part),
        seed=contract.seed,
    )
    return verdict.with_experiments(try_found_copies(judged, audited))


EXPERIMENTS = MappingProxyType({"table": _try_table})
"""Of the kinds of data whose experiments do more than leave copies out."""


def with_warnings(evaluation: Evaluation, verdict: Verdict) -> Evaluation:
    """Evaluation with a warning for each measured finding that is not binding."""
    return replace(evaluation, warnings=(*warnings_of(verdict.experiments), *evaluation.warnings))
