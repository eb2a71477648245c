"""Summary of data and plan, one line each."""

from __future__ import annotations

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.teacher import Teacher, TeacherStates
from trainwright.core.formatting import many, show_bytes, show_count
from trainwright.data.base.messages import some
from trainwright.data.columns.propose_columns import said
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.types import Prepared
from trainwright.model.families import library_family
from trainwright.planner.estimate import Estimate
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.choice import Choice
from trainwright.tracking.console import LABEL_WIDTH

_MOST_NAMES = 4


def labelled(label: str, text: str) -> str:
    """Aligned line of the screen."""
    return f"{label:<{LABEL_WIDTH}}{text}"


def describe_data(raw: Raw, prepared: Prepared) -> list[str]:
    """Rows, columns, target, split and exclusions."""
    facts = raw.facts
    files = some([file.path for file in facts.files], _MOST_NAMES)
    lines = [
        labelled("data", f"{files} · {prepared.features.describe(facts.rows)}"),
        labelled("target", prepared.target.describe(prepared.split.class_shares.get("train", {}))),
    ]
    split = prepared.split
    rows = " / ".join(f"{split.rows[part]:,}" for part in ("train", "validation", "test"))
    lines.append(
        labelled("split", f"{split.kind} · train / validation / test {rows} · {split.reason}")
    )
    # Over folds the test rows are those of the training and the validation again.
    apart = () if split.folds else (prepared.test,)
    if cut := prepared.features.describe_cuts([prepared.train, prepared.validation, *apart]):
        lines.append(labelled("truncated", cut))
    lines += [labelled(label, text) for label, text in raw.remarks]
    lines += [labelled("warning", warning) for warning in doubt_warnings(facts)]
    lines += [labelled("done", one.message) for one in prepared.done]
    return lines


def doubt_warnings(facts: DataFacts) -> list[str]:
    """Decisions on ambiguous columns, one line each, with the setting to write."""
    if not facts.doubts:
        return []
    from trainwright.planner.init.yaml_lines import flow

    return [
        f"{doubt.column}: {doubt.reason} · to decide it, write "
        + (doubt.write or f"data.columns.{as_key(doubt.column)}: {flow(said(doubt.settings))}")
        for doubt in facts.doubts
    ]


def describe_plan(decided: Plan) -> str:
    """Model, length and size in a line."""
    contract, estimate = decided.contract, decided.estimate
    model = contract.model
    parts: list[str] = [model.kind]
    if estimate.parameters != "unknown":
        parts.append(f"{show_count(estimate.parameters)} parameters")
    if model.is_selection:
        parts.append(_candidates(decided))
    elif model.is_loop_trained:
        parts.append(_length(contract, estimate))
    else:
        parts.append(library_family(model).describe(model))
    if contract.training.refit:
        parts.append("then again on training and validation rows")
    if isinstance(teacher := contract.training.teacher, Teacher):
        parts.append(f"learns from {teacher.bundle} ({teacher.weight:.0%} of the loss)")
        if isinstance(teacher.hidden, TeacherStates):
            parts.append("and its hidden states")
    parts.append(_held(contract.data, estimate.memory_bytes))
    return labelled("plan", " · ".join(parts))


def _candidates(decided: Plan) -> str:
    """Candidates, and those that cannot be trained."""
    from trainwright.contract.sections.model.selection import ModelSelection

    names = ModelSelection.of(decided.contract.model).chosen_names
    omitted = [name for name, one in decided.candidates.items() if isinstance(one, str)]
    said = many(len(names) - len(omitted), "candidate")
    return f"{said}, not trained: {', '.join(omitted)}" if omitted else said


def _length(contract: Contract, estimate: Estimate) -> str:
    """Epochs, steps and number format of a network's run."""
    training = contract.training
    sample = ("query", "queries") if contract.task == "ranking" else ("row",)
    epochs, form = settled(training.num_epochs), training.mixed_precision
    long = (
        f"at most {many(epochs, 'epoch')} of {many(estimate.steps_per_epoch, 'step')}, "
        f"{_growing(estimate, epochs)}"
    )
    if training.num_steps != "off":
        long = f"{many(training.num_steps, 'step')}, {estimate.steps_per_epoch:,} an epoch, "
    if training.num_tokens != "off":
        long = f"{many(training.num_tokens, 'token')}, "
    return (
        f"{long}"
        f"{many(settled(training.effective_batch_size), *sample)} a step, "
        f"{'number format to be measured' if form == 'auto' else form}"
    )


def _held(data: Data, memory_bytes: int) -> str:
    in_files = data.is_in_files
    return "rows in files" if in_files else f"{show_bytes(memory_bytes)} of encoded data"


def _growing(estimate: Estimate, epochs: int) -> str:
    """Total steps, if epochs differ."""
    if estimate.steps == epochs * estimate.steps_per_epoch:
        return ""
    return f"{estimate.steps:,} in all, "


def describe_choice(choice: Choice) -> str:
    """Measured choice in a line."""
    name = choice.path.rpartition(".")[2].replace("_", " ")
    return labelled("measured", f"{name} {choice.value}: {choice.reason}")
