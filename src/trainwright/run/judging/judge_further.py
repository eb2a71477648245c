"""What is judged of a model beside its predictions: the limits of its use, what its purpose
demands, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.core.files import Json
from trainwright.data.base.inputs import Part
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.predictor import Predictor
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.screen import StageTimes
from trainwright.tracking.run_folder import RunFolder


def judge_further(
    ready: Ready,
    model: tuple[Predictor, RunFolder],
    test: Part,
    stages: StageTimes,
    judged: tuple[Verdict, Evaluation],
) -> tuple[Verdict, Evaluation, Mapping[str, Json]]:
    """Verdict and evaluation with the limits of the model in use, what the purpose demands and what
    a decoder answers, and what it wrote for `evaluation.json`. `model` has its bundle in the folder
    of its run, where the predictions lie."""
    contract, (predictor, folder), (verdict, evaluation) = ready.plan.contract, model, judged
    # Imported here, as below: few contracts have such limits, and only decoders write.
    if contract.serving.is_limited:
        from trainwright.run.judging.judge import judge_serving

        with stages("judge"):
            verdict = verdict.with_clauses(judge_serving(folder, test, contract))
    if contract.purpose != "unstated":
        from trainwright.run.judging.judge_purpose import judge_purpose

        rows = len(ready.prepared.test)
        verdict, evaluation = judge_purpose(
            contract, predictor, folder, rows, (verdict, evaluation)
        )
    if contract.model.traits.describes_images:
        from trainwright.run.judging.judge_captions import judge_captions

        with stages("texts"):
            return verdict, evaluation, judge_captions(contract, predictor, test)
    if not contract.model.traits.writes_text:
        return verdict, evaluation, {}
    from trainwright.run.judging.judge_texts import judge_texts

    with stages("texts"):
        return judge_texts(ready, predictor, verdict, evaluation)
