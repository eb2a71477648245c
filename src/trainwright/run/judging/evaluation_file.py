"""`evaluation.json`: metrics, verdict, and every opening of the test rows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in, read_json, write_json
from trainwright.data.columns.target import Target
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.fold_scores import FoldScores, SeedScores
from trainwright.evaluation.verdict import Verdict
from trainwright.run.extend.extendable import read_opened
from trainwright.run.folder.check_own_files import check_own
from trainwright.run.request import refuse_script_run
from trainwright.run.run_context import Result
from trainwright.tracking.run_folder import RunFolder

NOT_JUDGED: Mapping[str, Json] = MappingProxyType({})
"""Of a model that was not to be calibrated, or trained again."""


def write_judged(
    result: Result,
    target: Target,
    folds: FoldScores,
    seeds: SeedScores,
    calibration: Mapping[str, Json] = NOT_JUDGED,
    refit: Mapping[str, Json] = NOT_JUDGED,
    texts: Mapping[str, Json] = NOT_JUDGED,
) -> None:
    """Write the evaluation of a run; earlier openings of the test rows stay listed. `calibration`
    and `refit` are empty without one; `texts` are what a decoder wrote and answered."""
    path = result.folder.evaluation
    opened = read_opened(result.folder)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(
        path,
        {
            "evaluation": result.evaluation.to_json(),
            "verdict": result.verdict.to_json(),
            "seconds": dict(result.seconds),
            "opened": [*opened, {"time": now, "why": "the verdict"}],
            "by_fold": folds.to_json(),
            "by_seed": seeds.to_json(),
            "labels": list(target.classes),
            **({"calibration": dict(calibration)} if calibration else {}),
            **({"refit": dict(refit)} if refit else {}),
            **texts,
        },
    )


def summarise_metrics(evaluation: Evaluation) -> Json:
    """Metrics on the judged rows with their intervals, for the bundle."""
    whole = evaluation.to_json()
    return {key: whole[key] for key in ("part", "rows", "confidence", "metrics")}


def read_judged(folder: RunFolder) -> Result:
    """Result of a run with a verdict.

    Raises:
        Mistake: it has none.
    """
    if not folder.evaluation.is_file():
        refuse_script_run(folder, "judge it in the script: tw.judge(predict, data)")
        raise Mistake(
            Problem(
                f"run {folder.name} has no verdict yet",
                found=f"no {folder.evaluation.name} in {folder.path}",
                fix=f"let it end: trainwright resume {shlex.quote(str(folder.path))}",
            )
        )
    check_own(folder, folder.evaluation.name)
    with damage_in(folder.evaluation):
        content = read_json(folder.evaluation)
        return Result(
            folder,
            Evaluation.from_json(content["evaluation"]),
            Verdict.from_json(content["verdict"]),
            {str(name): float(each) for name, each in content["seconds"].items()},
        )
