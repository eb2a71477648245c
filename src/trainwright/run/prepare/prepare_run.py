"""Preparation of a run before budget is spent: contract read, data prepared, plan made."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import (
    ContractSource,
    Document,
    placed,
    read_contract,
)
from trainwright.contract.rules.all_rules import unavailable
from trainwright.contract.sections.data.data_traits import DELIVERY
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.metric import TaskKind
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.core.errors import NOWHERE, ContractMistake, Mistake, NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.lazy_imports import need_torch
from trainwright.core.threads import use_threads
from trainwright.data.dispatch import modality_of, prepare, read_data
from trainwright.data.encoders.text_tokenizer import TextReading
from trainwright.data.read_table import Raw
from trainwright.data.sources.cache import open_cache
from trainwright.data.sources.local_files import FilesRead
from trainwright.data.types import Prepared
from trainwright.evaluation.calibration.fit_threshold import (
    calibration_problems,
    label_threshold_problems,
)
from trainwright.evaluation.evaluate import find_slices
from trainwright.model.families import family_of, library_family, network_family
from trainwright.model.input_shape import longest_sample, shape_of
from trainwright.planner.plan import Plan, plan
from trainwright.planner.plan_facts import DeviceFacts, read_device
from trainwright.run.prepare.contract_target import (
    problems_of_metric,
    target_problems,
    watch_defined,
    with_contract_target,
)
from trainwright.run.request import Request
from trainwright.run.screen import Screen, StageTimes, describe_data, describe_plan, labelled

if TYPE_CHECKING:
    from trainwright.run.prepare.question_sets import LoadedQuestions


@final
@dataclass(frozen=True, slots=True)
class Ready:
    """Everything known before budget is spent. `files` are those that were read, `seconds_before`
    is the time until the run's folder was opened. `teacher` describes that of the contract;
    `questions` are those that it asks."""

    document: Document
    raw: Raw
    device: DeviceFacts
    plan: Plan
    prepared: Prepared
    files: FilesRead
    seconds_before: float = 0.0
    teacher: Mapping[str, Json] = field(default_factory=dict)
    questions: tuple[LoadedQuestions, ...] = ()


def without_undivided(ready: Ready) -> Ready:
    """The same without the unsplit rows, which only folds and a refit still need: training cannot
    afford to keep them in memory next to its parts."""
    if ready.plan.contract.training.refit:
        return ready
    data = ready.plan.contract.data
    return replace(ready, raw=modality_of(data.kind).after_split(ready.raw, data))


def make_ready(
    request: Request, stages: StageTimes, screen: Screen, most_images: int = sys.maxsize
) -> Ready:
    """Read, plan and prepare, and report the result. Writes nothing. Of more than `most_images`
    image files only that many are decoded, enough for checks but not for training.

    Raises:
        Mistake: in the contract, the data or the installation, with all problems at once.
    """
    since = time.time_ns()
    document = _read_available(request)
    contract = document.contract
    with stages("read"), blaming(document.source):
        raw = read_data(contract.data, document.source.folder, request.frames, most_images)
    device = read_device(_needs_torch(contract))
    decided = plan(document, raw.facts, device)
    with stages("prepare"), blaming(document.source):
        task = decided_task(decided.contract)
        texts = text_reading(decided.contract, document.source.folder)
        prepared = prepare(raw, decided.contract.data, task, contract.split_seed, texts)
        prepared = with_contract_target(prepared, decided.contract)
        _check_prepared(decided, prepared, document, raw)
        if problems := problems_of_metric(prepared, decided.contract):
            raise ContractMistake(placed(problems, document.source))
        watching, watched = watch_defined(decided.contract, prepared)
        decided = replace(decided, contract=watching)
        unchecked = _of_earlier_run(decided.contract.model, prepared)
        asked = _asked(decided.contract, prepared, document.source.folder)
        prepared = _with_base(decided.contract, prepared, document.source.folder)
    prepared, teacher = _taught(prepared, decided, raw, document, stages)
    decided = decided.with_shape(shape_of(prepared), device, longest_sample(prepared))
    searched = "" if contract.tune == "off" else "as written; `trainwright tune` searches tune.over"
    others = filter(None, [watched, str(teacher.get("note", "")), searched])
    said = (*document.notes, *unchecked, *others)
    notes = (labelled("note", note) for note in said)
    for line in (*notes, *describe_data(raw, prepared), describe_plan(decided)):
        screen.say(line)
    read = (*raw.facts.files, *(one.file.version for one in asked))
    files = FilesRead(read, document.source.folder, since)
    return Ready(document, raw, device, decided, prepared, files, teacher=teacher, questions=asked)


def _of_earlier_run(model: ModelSection, prepared: Prepared) -> list[str]:
    """As `check_unseen_rows`, where the model starts from the run of another contract."""
    if not model.earlier_bundle:
        return []
    # Imported here: few models do.
    from trainwright.run.earlier_rows import check_unseen_rows

    return check_unseen_rows(model, prepared)


def _taught(
    prepared: Prepared, decided: Plan, raw: Raw, document: Document, stages: StageTimes
) -> tuple[Prepared, Mapping[str, Json]]:
    """With what the contract's teacher, if it has one, predicts of the training rows."""
    if decided.contract.training.teacher == "none":
        return prepared, {}
    # Imported here: few trainings have a teacher.
    if decided.contract.data.has_soft_tokens:
        from trainwright.run.teacher.token_teacher import teach_tokens as teach
    else:
        from trainwright.run.teacher.soft_targets import teach

    with stages("teacher"), blaming(document.source):
        return teach(prepared, decided.contract, raw, document.source.folder)


def plan_again(ready: Ready, request: Request) -> Ready:
    """Plan another contract for data that is prepared already: reads and prepares nothing.

    Raises:
        Mistake: in the contract, or it prepares the data otherwise.
    """
    document = _read_available(request)
    if document.contract.data.kind != ready.plan.contract.data.kind:
        # The facts of the rows are those of their kind: nothing else can be planned.
        raise _prepared_otherwise(["data.kind"], document)
    device = read_device(_needs_torch(document.contract))
    decided = plan(document, ready.raw.facts, device)
    before = dict(preparation_of(ready.plan.contract))
    changed = [name for name, value in preparation_of(decided.contract) if before[name] != value]
    if changed:
        raise _prepared_otherwise(changed, document)
    prepared = with_contract_target(ready.prepared, decided.contract)
    with blaming(document.source):
        _check_prepared(decided, prepared, document, ready.raw)
        decided = replace(decided, contract=watch_defined(decided.contract, prepared)[0])
        asked = _asked(decided.contract, prepared, document.source.folder)
        prepared = _with_base(decided.contract, prepared, document.source.folder)
    decided = decided.with_shape(shape_of(prepared), device, longest_sample(prepared))
    planned = replace(ready, document=document, device=device, plan=decided, prepared=prepared)
    return replace(planned, questions=asked)


def _asked(contract: Contract, prepared: Prepared, folder: Path) -> tuple[LoadedQuestions, ...]:
    """The questions of the contract, as the model reads them."""
    if not contract.questions:
        return ()
    # Imported here: few contracts ask questions.
    from trainwright.run.prepare.question_sets import load_questions

    return load_questions(contract, folder, prepared.features)


def _with_base(contract: Contract, prepared: Prepared, folder: Path) -> Prepared:
    """Pairs of answers with what the base says of them."""
    if not contract.data.is_paired:
        return prepared
    from trainwright.run.teacher.reference_scores import with_reference

    return with_reference(contract, prepared, folder)


def _prepared_otherwise(changed: Sequence[str], document: Document) -> ContractMistake:
    differ = f"{', '.join(changed)} of the contract differ{'' if len(changed) > 1 else 's'}"
    problem = Problem(
        f"the data was prepared otherwise: {differ}",
        path=changed[0],
        fix="prepare it with these values: tw.prepare(contract, overrides=[...])",
    )
    return ContractMistake(placed([problem], document.source))


def need_test_rows(ready: Ready) -> None:
    """Check that there are rows to judge a model on.

    Raises:
        Mistake: the frame of test rows is empty, so that the data is for fitting alone.
    """
    if not len(ready.prepared.test):
        raise Mistake(
            Problem(
                "there are no test rows to judge a model on",
                path="data.test_path",
                found="a frame without rows",
                expected="at least one row",
                fix="give a frame with rows, or stop at tw.fit",
            )
        )


def preparation_of(contract: Contract) -> Iterator[tuple[str, Json]]:
    """Values that decide how rows are read, split and encoded, by path."""
    unused = {*DELIVERY, "audit", *(() if contract.data.has_tokens else ("sampling", "augment"))}
    for name, value in contract.data.model_dump(mode="json", exclude=unused).items():
        yield f"data.{name}", value
    yield "task", contract.task
    yield "split_seed", contract.split_seed
    yield "training.teacher", contract.model_dump(mode="json")["training"]["teacher"]


def _read_available(request: Request) -> Document:
    """Read the contract, which asks for nothing that is not installed or implemented."""
    document = read_contract(request.contract, request.overrides)
    if problems := unavailable(document.contract):
        raise NotAvailable(placed(problems, document.source))
    use_threads(document.contract.compute.threads)
    model = document.contract.model
    if document.contract.tracking.sinks:
        # Imported here: few runs are sent to trackers.
        from trainwright.tracking.sinks.sink_process import need_sinks

        with blaming(document.source):
            need_sinks(document.contract.tracking.sinks)
    if model.has_adapter:
        # Imported here: few models have an adapter. Before torch, which reads its setting once.
        from trainwright.core.process import give_back_large_tensors

        give_back_large_tensors()
    if model.traits.trained_by == "library":
        with blaming(document.source):
            library_family(model).need_library("model.kind", f"a model of kind {model.kind}")
    if _is_network(document.contract):
        from trainwright.optim.dependencies import need_optimizer

        with blaming(document.source):
            need_torch("model.kind", "a network")
            need_optimizer(document.contract.training.optimizer)
    return _with_files(document)


def _with_files(document: Document) -> Document:
    """The contract with what its model takes from files."""
    model, source = document.contract.model, document.source
    family, data = family_of(model), document.contract.data
    with blaming(source):
        found = family.read_files(model, source.folder, data.form)
    changed = {"model": found, "data": data.for_size(family.image_size(found))}
    contract = document.contract.model_copy(update=changed)
    return replace(document, contract=contract, notes=(*document.notes, *family.remarks(found)))


def text_reading(contract: Contract, folder: Path) -> TextReading:
    """How the model of a resolved contract reads texts, and where their tokens are kept."""
    tokenizer = family_of(contract.model).tokenizer(contract.model)
    if not tokenizer:
        return TextReading()
    return TextReading(tokenizer, open_cache(contract.data.cache_folder, folder))


def _is_network(contract: Contract) -> bool:
    return contract.model.is_loop_trained


def _needs_torch(contract: Contract) -> bool:
    if not contract.model.is_selection:
        return _is_network(contract)
    from trainwright.planner.candidate_documents import needs_torch

    return needs_torch(contract)


def _check_prepared(decided: Plan, prepared: Prepared, document: Document, raw: Raw) -> None:
    """Mistakes of a contract that only its prepared rows show."""
    contract = document.contract
    metric = decided.contract.metric.name
    problems = target_problems(prepared, decided.contract)
    problems += _problems_of_rows(decided.contract, prepared)
    problems += calibration_problems(decided.contract.training, metric, prepared.target)
    if prepared.target.task == "multilabel":
        problems += label_threshold_problems(decided.contract.training, metric)
    if prepared.target.query:
        from trainwright.evaluation.metrics.query_metrics import ranking_problems

        problems += ranking_problems(decided.contract.metric, prepared)
    if contract.purpose != "unstated":
        from trainwright.planner.purpose_problems import purpose_problems

        written, found = document.written, prepared.split
        problems += purpose_problems(contract, written, prepared.target, found, raw.facts)
    if problems:
        raise ContractMistake(placed(problems, document.source))
    if contract.training.refit and contract.data.weight_column:
        from trainwright.data.columns.row_weights import read_each_weight

        # Those of the training rows were read with them.
        section, part = TableData.of(contract.data), prepared.validation
        read_each_weight(part.frame, part.rows, section)
    # Evaluated again when the model is judged: a mistake in a condition is reported before
    # training.
    find_slices(contract.slices, prepared.train.frame)
    if _is_network(contract) and not contract.data.has_tokens:
        from trainwright.data.sampling.build_sampler import build_sampler

        # Built again for the feed: what a column lacks is reported before training. The sources of
        # a text were looked at when it was read.
        draws = build_sampler(
            decided.contract.data, prepared, 1, len(prepared.train), contract.seed
        )
        check_single_rows(decided.contract, prepared, draws.rows, document)


def check_single_rows(
    contract: Contract, prepared: Prepared, rows: int, document: Document
) -> None:
    """No batch norm gets a micro-batch of one row: from 3 rows on, pieces of a step have two."""
    batch, model = settled(contract.training.batch_size), contract.model
    if batch > 2 or (batch == 2 and rows % 2 == 0):
        return
    from trainwright.model.count_network import takes_one_row

    if not takes_one_row(network_family(model), model, shape_of(prepared)):
        problem = Problem(
            "a batch norm cannot learn from a micro-batch of one row",
            path="training.batch_size",
            found=f"{batch}, with {many(rows, 'training row')} in an epoch",
            fix="write training.batch_size: 4, or a model without batch norm",
        )
        raise ContractMistake(placed([problem], document.source))


def _problems_of_rows(contract: Contract, prepared: Prepared) -> list[Problem]:
    model = contract.model
    found = list(family_of(model).encoding_problems(model, prepared.features))
    if model.traits.trained_by != "library":
        return found
    family, train = library_family(model), prepared.train
    found += family.target_problems(model, train.learned().target)
    return [*found, *family.size_problems(model, train, prepared.features.cardinalities)]


def decided_task(contract: Contract) -> TaskKind:
    """Task of a resolved contract."""
    match contract.task:
        case (
            "classification"
            | "regression"
            | "multilabel"
            | "generation"
            | "ranking"
            | "forecasting"
            | "retrieval"
        ) as task:
            return task
        case other:
            raise AssertionError(f"a plan has no {other}: decided, and available")


@contextmanager
def blaming(source: ContractSource) -> Iterator[None]:
    """Problems located in no data file are located in the contract."""
    try:
        yield
    except Mistake as mistake:
        raise type(mistake)(
            replace(problem, place=source.place_of(problem.path))
            if problem.place == NOWHERE
            else problem
            for problem in mistake.problems
        ) from mistake
