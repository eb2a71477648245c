"""Questions of a file, answered by the model of a finished run and by others. Needs torch."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pydantic import ValidationError

from trainwright.contract.document import Contract
from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.validation_errors import problems_of_shape
from trainwright.contract.reading.yaml_reader import ParsedYaml
from trainwright.contract.rules.target.question_rules import check_questions
from trainwright.core.errors import ContractMistake, Place, Problem, TrainwrightError
from trainwright.core.files import Json
from trainwright.evaluation.experiments.contamination import JudgedQuestions
from trainwright.evaluation.verdict import Verdict
from trainwright.run.after.explain_run import prepare_again
from trainwright.run.after.generate_text import read_writer
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.judging.judge_questions import (
    Examination,
    Replies,
    Search,
    ask_questions,
    search_in,
    search_nowhere,
    with_questions,
)
from trainwright.run.prepare.question_sets import LoadedQuestions, load_questions
from trainwright.run.screen import StreamScreen
from trainwright.tracking.run_folder import RunFolder

_KEY = "questions."


@final
@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """A set of questions that the model of a run answered, and the verdict on it."""

    folder: RunFolder
    loaded: LoadedQuestions
    judged: JudgedQuestions
    verdict: Verdict
    warnings: tuple[str, ...]
    confidence: float

    def to_json(self) -> Json:
        """`run`, `verdict`, `clauses`, `findings`, `questions`, `warnings`; bounds that are not
        given are null."""
        return {
            "run": self.folder.name,
            **_renamed(self.verdict.to_json()),
            "questions": {
                **self.judged.scores.to_json(),
                "file": self.loaded.file.version.to_json(),
                "searched": self.judged.searched,
            },
            "warnings": list(self.warnings),
        }


def evaluate_questions(
    folder: RunFolder, file: str, overrides: Sequence[str], against: Sequence[RunFolder] = ()
) -> AnsweredQuestions:
    """The questions of a file by the model of a run, with paired differences from the baselines and
    from the models of other runs. `overrides` set keys of the questions, such as
    `questions.metric=acc_norm`. Nothing is written.

    Raises:
        Mistake: a run has no model that writes texts, or cannot answer the questions.
    """
    predictor = read_writer(folder)
    contract = _with_questions(read_planned(folder), file, overrides)
    (loaded,) = load_questions(contract, Path(), predictor.features)
    others = {f"run {one.name}": _replies(one, contract) for one in against}
    examination = Examination(contract.metric, contract.seed, _search(folder), others)
    (judged,) = examination.judge((loaded,), predictor)
    verdict, warnings = with_questions((judged,), Verdict("met", ()), contract.data.audit.accept)
    if others:
        names = ", ".join(one.name for one in against)
        warnings = (*warnings, f"contamination not looked for in the training text of {names}")
    return AnsweredQuestions(folder, loaded, judged, verdict, warnings, contract.metric.confidence)


def _replies(folder: RunFolder, contract: Contract) -> tuple[Replies, ...]:
    """What the model of another run answers to the same questions, after the same examples."""
    predictor = read_writer(folder)
    same = {"questions": contract.questions, "seed": contract.seed}
    own = read_planned(folder).model_copy(update=same)
    return tuple(
        ask_questions(one, predictor) for one in load_questions(own, Path(), predictor.features)
    )


def _search(folder: RunFolder) -> Search:
    """Looks for questions in the training text of a run, if it can still be read."""
    try:
        ready = prepare_again(folder, StreamScreen(io.StringIO()), "its text is searched")
    except TrainwrightError as error:
        return search_nowhere(str(error).partition("\n")[0])
    return search_in(ready.prepared.train.inputs, ready.prepared.features)


def _with_questions(contract: Contract, file: str, overrides: Sequence[str]) -> Contract:
    """The contract of a run with the questions of a file, and no others."""
    if others := [text for text in overrides if not text.strip().startswith(_KEY)]:
        raise ContractMistake(
            Problem(
                "beside --questions only their own keys can be set",
                path=others[0].partition("=")[0].strip(),
                expected=f"a path that begins with {_KEY}",
                fix="write for example --set questions.metric=acc_norm",
                place=Place(f"--set {others[0]}"),
            )
        )
    dumped = {**contract.model_dump(mode="json"), "questions": {"path": file}}
    written, _ = set_values(ParsedYaml(dumped, {}), [text.strip() for text in overrides])
    assert isinstance(written.value, dict), "overrides set keys of a mapping"
    value = {**written.value, "questions": [written.value["questions"]]}
    try:
        changed = Contract.model_validate_json(json.dumps(value, allow_nan=False))
    except ValidationError as error:
        raise ContractMistake(problems_of_shape(Contract, value, error)) from None
    if problems := list(check_questions(changed, frozenset())):
        raise ContractMistake(problems)
    return changed


def _renamed(verdict: Json) -> dict[str, Json]:
    return {
        "verdict": verdict["status"],
        "clauses": verdict["clauses"],
        "findings": verdict["findings"],
    }
