"""What a decoder answers and writes when it is judged. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.data.base.table import Part
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.predictor import Predictor
from trainwright.run.judging.judge_questions import Examination, search_in, with_questions
from trainwright.run.judging.write_samples import write_samples
from trainwright.run.prepare.ready_run import Ready


def _samples(predictor: Predictor, test: Part) -> list[Json]:
    """Texts of the model; none by one that can be trained and does not write, such as a model of
    transformers without a cache of keys and values."""
    try:
        return write_samples(predictor, test)
    except Mistake:
        return []


def judge_texts(
    ready: Ready, predictor: Predictor, verdict: Verdict, evaluation: Evaluation
) -> tuple[Verdict, Evaluation, Mapping[str, Json]]:
    """The verdict with the questions of the contract, the evaluation with their doubts, and for
    `evaluation.json` their scores, and texts that the model writes after beginnings of test rows.

    Raises:
        Mistake: memory does not suffice.
    """
    contract, prepared = ready.plan.contract, ready.prepared
    texts: dict[str, Json] = {"samples": _samples(predictor, prepared.test)}
    if not ready.questions:
        return verdict, evaluation, texts
    search = search_in(prepared.train.inputs, prepared.features)
    judged = Examination(contract.metric, contract.seed, search).judge(ready.questions, predictor)
    accept = contract.data.audit.accept
    verdict, warnings = with_questions(judged, verdict, accept)
    evaluation = replace(evaluation, warnings=(*warnings, *evaluation.warnings))
    texts["questions"] = [
        {**one.scores.to_json(), "file": asked.file.version.to_json(), "searched": one.searched}
        for one, asked in zip(judged, ready.questions, strict=True)
    ]
    return verdict, evaluation, texts
