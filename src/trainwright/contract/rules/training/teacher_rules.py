"""Rules on `training.teacher`."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.regression_rules import asks_for_counts
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import (
    AutoLoss,
    CrossEntropy,
    SquaredError,
    Teacher,
    TeacherStates,
)
from trainwright.core.errors import Problem

_PATH = "training.teacher"
_REMOVE = "remove training.teacher"
_NO_STATES = "remove training.teacher.hidden"


def check_teacher(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Rows that a teacher can score, and a loss and a model that can take its scores."""
    teacher = contract.training.teacher
    if isinstance(teacher, Teacher):
        yield from _data_problems(contract)
        yield from _token_problems(contract, written)
        yield from _model_problems(contract, teacher)
        yield from _state_problems(contract, teacher)
        yield from _training_problems(contract)


def _data_problems(contract: Contract) -> Iterator[Problem]:
    data = contract.data
    if data.has_soft_tokens:
        return
    if not data.can_be_taught or contract.task in ("ranking", "forecasting", "generation"):
        yield Problem(
            "a teacher scores rows of a table or images, or the tokens of texts and chats",
            path=_PATH,
            found=f"data.kind {data.kind} and task {contract.task}",
            expected="classification or regression of a table or of images, tokens, or chats",
            fix=_REMOVE,
        )
    elif data.is_blended:
        yield Problem(
            "images that are blended have no score of the teacher",
            path="data.augment",
            found="mixup or cutmix, beside training.teacher",
            expected="one of the two",
            fix=f"{_REMOVE}, or data.augment",
        )


def _token_problems(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    if not contract.data.has_soft_tokens:
        if "training.teacher.top_k" in written:
            yield Problem(
                "a teacher gives all of its scores where rows are predicted, and no tokens",
                path=f"{_PATH}.top_k",
                found=f"data.kind {contract.data.kind}",
                expected="data of tokens or chats beside it",
                fix=f"remove {_PATH}.top_k",
            )
        return
    if contract.training.ramps.sequence != "off":
        yield Problem(
            "windows that are cut have no scores of the teacher",
            path="training.ramps.sequence",
            found="a ramp, beside training.teacher",
            expected="one of the two",
            fix=f"{_REMOVE}, or training.ramps.sequence",
        )


def _model_problems(contract: Contract, teacher: Teacher) -> Iterator[Problem]:
    model = contract.model
    if not model.traits.weighs_rows:
        fitting = kinds_with(lambda one: one.weighs_rows and contract.data.form in one.reads)
        yield Problem(
            f"a model of kind {model.kind} cannot learn from a teacher",
            path=_PATH,
            found=model.kind,
            expected=f"one of these models: {', '.join(fitting)}",
            fix=f"{_REMOVE}, or change model.kind",
        )
    elif not model.is_loop_trained and teacher.temperature != 1:
        yield Problem(
            "only a network has logits that a temperature could divide",
            path=f"{_PATH}.temperature",
            found=f"{teacher.temperature:g}, with model.kind {model.kind}",
            expected="1",
            fix=f"remove {_PATH}.temperature",
        )
    loss = contract.training.loss
    if model.is_loop_trained and not isinstance(loss, AutoLoss | CrossEntropy | SquaredError):
        yield Problem(
            f"the loss {loss.name} has no form for the scores of a teacher",
            path="training.loss.name",
            found=f"{loss.name}, beside training.teacher",
            expected="cross_entropy for classes, mse for numbers",
            fix=f"{_REMOVE}, or training.loss",
        )


def _state_problems(contract: Contract, teacher: Teacher) -> Iterator[Problem]:
    model = contract.model
    if not isinstance(teacher.hidden, TeacherStates):
        return
    if contract.training.compute.compile == "on":
        yield Problem(
            "hidden states are read outside of a compiled graph",
            path="training.compute.compile",
            found=f"on, beside {_PATH}.hidden",
            expected="off",
            fix=f"remove training.compute.compile, or {_PATH}.hidden",
        )
    if model.traits.has_row_state:
        return
    fitting = kinds_with(lambda one: one.has_row_state and contract.data.form in one.reads)
    yield Problem(
        f"a model of kind {model.kind} has no hidden state of a row",
        path=f"{_PATH}.hidden",
        found=model.kind,
        expected=f"one of these models: {', '.join(fitting)}" if fitting else "rows, not tokens",
        fix=f"{_NO_STATES}, or change model.kind" if fitting else _NO_STATES,
    )


def _training_problems(contract: Contract) -> Iterator[Problem]:
    several = [("data.split.folds", bool(fold_count(contract.data)))]
    several.append(("training.refit", contract.training.refit))
    for key, is_there in several:
        if is_there:
            yield Problem(
                f"a teacher was trained on one split, and {key} trains on others",
                path=_PATH,
                found=f"a teacher, beside {key}",
                expected="one of the two",
                fix=f"{_REMOVE}, or {key}",
            )
    numbers = {
        "metric.quantiles": contract.metric.quantiles,
        "data.order": contract.data.class_order,
        "metric.name": asks_for_counts(contract),
    }
    for key in (key for key, is_there in numbers.items() if is_there):
        yield Problem(
            f"a teacher shows a class or a mean, and {key} asks for something else",
            path=_PATH,
            found=f"a teacher, beside {key}",
            expected="one of the two",
            fix=_REMOVE if key == "metric.name" else f"{_REMOVE}, or {key}",
        )
