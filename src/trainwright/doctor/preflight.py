"""Preflight: checks before budget is spent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwright.contract.sections.data.data_traits import Mixture, Uniform
from trainwright.contract.sections.section import settled
from trainwright.core.formatting import many, show_bytes
from trainwright.data.audit.audit_result import AuditResult, findings_beside
from trainwright.data.base.inputs import Part
from trainwright.data.quality.finding import Finding, Severity, worst_first
from trainwright.data.read_table import DataFacts
from trainwright.data.types import Prepared
from trainwright.evaluation.intervals.bootstrap import LEAST_UNITS
from trainwright.evaluation.intervals.resampled_metrics import DecidingClass, deciding_class
from trainwright.evaluation.metrics.predictions import count_units, number_units
from trainwright.model.families import library_family
from trainwright.planner.estimate import idle_rules
from trainwright.planner.kinds.data_planner import planner_of
from trainwright.planner.plan import Plan

if TYPE_CHECKING:
    from trainwright.contract.sections.data.tokens import TokenFeeding
    from trainwright.data.base.token_inputs import TokenInputs
    from trainwright.data.sampling.samplers import Sampler
    from trainwright.data.text.documents import Chunks

_SPARE_BYTES = 256 * 2**20
_FEW_TEST_ROWS = 100
_MUCH_PADDING = 0.1


def preflight(
    decided: Plan,
    facts: DataFacts,
    prepared: Prepared,
    faults: Sequence[Finding],
    audited: Sequence[AuditResult],
    runs: Path,
) -> tuple[Finding, ...]:
    """All findings, most severe first: `faults` of the data, those of the leakage audit, and those
    of this run's plan."""
    metric = decided.contract.metric.name
    return worst_first(
        (
            *of_data(prepared, faults, audited, metric, can_fold=_can_fold(decided, facts)),
            *_of_model(decided, prepared),
            *planner_of(decided.contract, facts).findings(),
            *_packing(decided, prepared),
            *_padding(decided, prepared),
            *_validations(decided),
            *_disk(decided, runs),
        )
    )


def of_data(
    prepared: Prepared,
    faults: Sequence[Finding],
    audited: Sequence[AuditResult],
    metric: str,
    *,
    can_fold: bool = False,
) -> tuple[Finding, ...]:
    """Findings of the data only, most severe first, for a model that is trained elsewhere. `metric`
    is the one that is judged; `can_fold`: the contract may ask for folds, and does not."""
    of_test = (*_undecidable(prepared, metric, can_fold=can_fold), *_test_rows(prepared))
    return worst_first((*faults, *findings_beside(audited, faults), *of_test))


def _can_fold(decided: Plan, facts: DataFacts) -> bool:
    """May the contract ask for folds? They take the place of parts that are drawn by their shares,
    and of seeds, and need the rows in memory."""
    contract = decided.contract
    _, shares = contract.data.part_shares
    is_drawn = shares.keys() == {"validation", "test"} and not facts.given
    return is_drawn and contract.training.seeds == 1 and not contract.data.is_in_files


def _undecidable(prepared: Prepared, metric: str, *, can_fold: bool) -> Iterator[Finding]:
    """A clause on a class with too few test rows for any interval."""
    target, test = prepared.target, prepared.test
    if not target.classes:
        return
    code, units = _deciding_class(prepared, metric, (test,))
    if units >= LEAST_UNITS:
        return
    which = f" of class {target.classes[code]!r}" if code >= 0 else ""
    alone = count_units(test.units) == len(test)
    unit = ("test row", "test rows")
    if not alone:
        unit = ("independent unit of test rows", "independent units of test rows")
    have = many(units, *unit)
    parts = (prepared.train, prepared.validation, test)
    if can_fold and _deciding_class(prepared, metric, parts).units >= LEAST_UNITS:
        more = "data.split.folds tests every row"
    elif can_fold or prepared.split.folds:
        more = f"give more rows{which}"
    else:
        more = f"give more test rows{which}"
    message = (
        f"the clause on {metric} cannot be decided: {have}{which}, and an interval needs "
        f"{LEAST_UNITS}; {more}"
    )
    yield Finding("undecidable", "warning", message, units, fix=more)


def _deciding_class(prepared: Prepared, metric: str, parts: Sequence[Part]) -> DecidingClass:
    """The class that an interval rests on, and its units in these parts together."""
    numbered, first = [], 0
    for part in parts:
        count, codes = number_units(part.units)
        numbered.append(codes + first)
        first += count
    target = prepared.target
    truth = np.concatenate([part.target for part in parts])
    return deciding_class(
        metric, truth, np.concatenate(numbered), target.positive_code, len(target.classes)
    )


def _of_model(decided: Plan, prepared: Prepared) -> Iterator[Finding]:
    """Findings of a library on the rows that it trains on."""
    model, rows = decided.contract.model, len(prepared.train)
    if model.traits.trained_by == "library":
        fewest = min([rows, *(fold["train"] for fold in prepared.split.folds)])
        yield from library_family(model).findings(model, fewest, is_fold=fewest < rows)


def _test_rows(prepared: Prepared) -> tuple[Finding, ...]:
    rows = len(prepared.test)
    if rows >= _FEW_TEST_ROWS:
        return ()
    message = f"only {many(rows, 'test row')} for the verdict: the intervals will be wide"
    return (Finding("few_test_rows", "warning", message, rows, fix="add test rows"),)


def _validations(decided: Plan) -> Iterator[Finding]:
    """Settings that depend on validations that never happen."""
    for message, fix in idle_rules(decided.contract, decided.estimate.train_rows):
        yield Finding("too_few_validations", "warning", message, fix=fix)


def _packing(decided: Plan, prepared: Prepared) -> tuple[Finding, ...]:
    """Padding and truncation of packing the training documents into windows."""
    model = decided.contract.model
    if not decided.contract.data.is_packed:
        return ()
    from trainwright.contract.sections.data.tokens import TokenFeeding
    from trainwright.data.base.token_inputs import TokenInputs
    from trainwright.data.text.packing import pack_inputs

    data = TokenFeeding.of(decided.contract.data)
    inputs = TokenInputs.of_kind(prepared.train.inputs)
    lengths = inputs.document_lengths()
    packing = pack_inputs(inputs, model.context_length, data.long_documents)
    message = (
        f"{many(len(lengths), 'document')} in {many(len(packing.ends), 'window')} of "
        f"{model.context_length:,}: {packing.padding:.1%} padding, {many(packing.cut, 'document')} "
        f"({packing.cut / len(lengths):.1%}) cut, {packing.lost / lengths.sum():.1%} of the tokens "
        "lost"
    )
    is_much = packing.padding > _MUCH_PADDING or packing.lost
    return (
        Finding(
            "packing",
            "warning" if is_much else "info",
            message,
            packing.cut,
            fix=_another_context("choose another", data.split_fix) if is_much else "",
        ),
    )


def _padding(decided: Plan, prepared: Prepared) -> tuple[Finding, ...]:
    """Padding and truncation of the padded training documents."""
    contract = decided.contract
    model, training = contract.model, contract.training
    if not contract.data.is_padded:
        return ()
    from trainwright.contract.sections.data.tokens import TokenFeeding
    from trainwright.data.base.token_inputs import TokenInputs
    from trainwright.data.sampling.length_buckets import BucketSampler
    from trainwright.data.text.documents import cut_documents
    from trainwright.data.text.padding import Steps, measure_padding, padded_shapes

    data, inputs = TokenFeeding.of(contract.data), TokenInputs.of_kind(prepared.train.inputs)
    tokens, shapes = inputs.document_lengths(), padded_shapes(data, model.context_length)
    pieces = cut_documents(tokens, model.context_length, data.long_documents)
    steps = Steps(settled(training.effective_batch_size), settled(training.batch_size))

    def share(draws: Sampler) -> float:
        return measure_padding(pieces.lengths, draws, steps, shapes)

    if isinstance(data.sampling, Mixture):
        padding = share(_mixed(data.sampling, inputs, pieces, contract.seed))
        what = f"{padding:.1%} padding"
    else:
        buckets = settled(data.padding.buckets)
        padding, without = (
            share(BucketSampler(pieces.lengths, count, steps.rows, contract.seed))
            for count in (buckets, 1)
        )
        what = f"{padding:.1%} padding with {buckets} buckets, {without:.1%} without"
    found = (
        f"{many(len(tokens), 'document')} in batches of at most {steps.batch:,}: {what}, "
        f"{many(pieces.cut, 'document')} ({pieces.cut / len(tokens):.1%}) cut, "
        f"{pieces.lost / tokens.sum():.1%} of the tokens lost"
    )
    return (_padding_found(found, padding, pieces, data),)


def _mixed(sampling: Mixture, inputs: TokenInputs, pieces: Chunks, seed: int) -> Sampler:
    """Sampling order of the documents of a mixture."""
    from trainwright.data.sampling.build_sampler import mixture_sampler

    codes = inputs.sources.of(inputs.document_starts()[pieces.documents])
    return mixture_sampler(sampling, inputs.sources.names, codes, seed)


def _padding_found(message: str, padding: float, pieces: Chunks, data: TokenFeeding) -> Finding:
    fix = ""
    if pieces.lost:
        fix = _another_context("raise", data.split_fix, "write ")
    elif padding > _MUCH_PADDING:
        fix = "lower data.padding.multiple, or write data.windows: packed and remove data.padding"
        if isinstance(data.sampling, Uniform):
            fix = f"raise data.padding.buckets, {fix}"
    severity: Severity = "warning" if fix else "info"
    return Finding("padding", severity, message, pieces.cut, fix=fix)


def _another_context(verb: str, split_fix: str, write: str = "") -> str:
    return f"{verb} model.context" + (f", or {write}{split_fix}" if split_fix else "")


def _disk(decided: Plan, runs: Path) -> Iterator[Finding]:
    """Too little disk space for the weights, the optimizer's two moments and the kept checkpoints,
    in fp32."""
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    parameters = decided.estimate.parameters
    keeps = decided.contract.training.checkpointing.keep_top_k + 2
    needed = _SPARE_BYTES + (0 if parameters == "unknown" else parameters * 4 * 3 * keeps)
    if not os.access(folder, os.W_OK):
        yield Finding("disk", "warning", f"{folder} is not writable")
    elif free < needed:
        message = f"{show_bytes(free)} free in {folder}, about {show_bytes(needed)} needed"
        yield Finding("disk", "warning", message)
