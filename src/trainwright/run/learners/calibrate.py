"""Calibration of a fitted model, on scores of rows that it was not trained on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.contract.document import Contract
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.base.messages import some
from trainwright.evaluation.calibration.fit_threshold import (
    CannotCalibrate,
    fit_cost_threshold,
    fit_label_thresholds,
    fit_threshold,
)
from trainwright.predictor.calibration import NOT_CALIBRATED, USUAL_THRESHOLD, Calibration
from trainwright.predictor.conformal import (
    conformal_shifts,
    conformal_shifts_by_step,
    fewest_rows,
)
from trainwright.predictor.predictor import Predictor
from trainwright.run.library_fit import Fitted


def decide_labels(
    fitted: Fitted, scores: Floats, truth: npt.NDArray[Any], contract: Contract
) -> Fitted:
    """The same with the contract's threshold of each label, fitted to probabilities [N, L] of rows
    with these labels [N, L]; with a warning where there is nothing to fit to."""
    predictor, threshold = fitted.predictor, contract.training.threshold
    names, said = predictor.target.target_names, fitted.warnings
    if threshold == "auto":
        thresholds = fit_label_thresholds(scores, truth, contract.metric.name)
        same = [name for name, has in zip(names, truth.T, strict=True) if np.ptp(has) == 0]
        if same:
            what = f"{some(same)}: every validation row has it, or none does"
            said = (*said, f"no threshold could be fitted for {what}; it is 1/2")
    else:
        thresholds = (threshold,) * len(names)
    found = Calibration(thresholds=thresholds, rows=len(truth))
    return replace(fitted, predictor=replace(predictor, calibration=found), warnings=said)


def calibrate(
    fitted: Fitted, scores: Floats, truth: npt.NDArray[Any], units: Integers, contract: Contract
) -> Fitted:
    """The same with the contract's map and threshold, fitted to scores [N, C] of rows with these
    classes and units [N]; with a warning where they cannot be fitted."""
    training = contract.training
    method = training.calibration
    assert method != "conformal", "checked with the prepared rows"
    assert method != "default", "the plan has decided it"
    target, threshold = fitted.predictor.target, training.threshold
    if target.target_names:
        return decide_labels(fitted, scores, truth, contract)
    # Imported here: most probabilities stay as the model gives them.
    from trainwright.evaluation.calibration.fit_calibration import fit_calibration

    try:
        found = fit_calibration(scores, truth, units, method, contract.seed)
        if found.method != "none":
            tried = (
                found.tried or fit_calibration(scores, truth, units, "auto", contract.seed).tried
            )
            if tried["none"] < tried.get(found.method, -np.inf):
                losses = f"{tried['none']:.4g} without, {tried[found.method]:.4g} with it"
                worse = f"calibration by {found.method} makes held-out validation rows worse"
                fitted = replace(fitted, warnings=(*fitted.warnings, f"{worse}: log loss {losses}"))
        calibrated, positive = found.apply(scores), target.positive_code
        if len(costs := target.costs) == 2:
            threshold = fit_cost_threshold(calibrated, truth, units, costs, positive, contract.seed)
        elif threshold == "auto":
            threshold = fit_threshold(calibrated, truth, positive, contract.metric.name)
    except CannotCalibrate as error:
        fitted = replace(fitted, warnings=(*fitted.warnings, f"not calibrated: {error}"))
        found = NOT_CALIBRATED
        threshold = USUAL_THRESHOLD if threshold == "auto" else threshold
    found = replace(found, threshold=threshold)
    predictor = replace(fitted.predictor, calibration=found)
    said = _one_class(predictor, scores) if target.costs else ()
    return replace(fitted, predictor=predictor, warnings=(*fitted.warnings, *said))


def _one_class(predictor: Predictor, scores: Floats) -> tuple[str, ...]:
    """Says that the costs leave nothing to decide."""
    decided = predictor.decide(predictor.calibrated(scores))
    if decided is None or len(found := np.unique(decided)) != 1:
        return ()
    name = predictor.target.classes[int(found[0])]
    return (
        f"with metric.costs it is cheapest to call every one of {len(decided):,} validation rows "
        f"{name!r}: the model decides nothing",
    )


def calibrate_quantiles(fitted: Fitted, part: Part) -> Fitted:
    """With quantiles that are shifted to hold on the rows of a part as they are learned, those of
    forecasts in each step; with a warning where there are too few rows."""
    predictor, levels = fitted.predictor, part.inputs.levels
    quantiles = predictor.target.quantiles
    scores = predictor.target.arrange(predictor.scorer.score(part.inputs))
    truth, steps = part.learned().target, levels.steps
    if len(truth) < (fewest := fewest_rows(quantiles)):
        said = f"not calibrated: {len(truth)} validation rows, and {fewest} are needed"
        return replace(fitted, warnings=(*fitted.warnings, said))
    if len(steps):
        by_step = conformal_shifts_by_step(scores, truth, quantiles, steps)
        found = Calibration("conformal", step_shifts=by_step, rows=len(truth))
    else:
        shifts = conformal_shifts(scores, truth, quantiles)
        found = Calibration("conformal", shifts=shifts, rows=len(truth))
    return replace(fitted, predictor=replace(predictor, calibration=found))
