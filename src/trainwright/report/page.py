"""`report.html`: a self-contained report of a run, built from the run folder only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, write_text
from trainwright.core.redaction import redact
from trainwright.report.figures.confusion_and_histograms import view_confusion
from trainwright.report.figures.evaluation_figures import draw_evaluation, draw_forecast
from trainwright.report.figures.training_figures import view_training
from trainwright.report.format import clean, clean_lines, show_when
from trainwright.report.load_run import Contents, StoredEvaluation, read_contents
from trainwright.report.sections.data_section import view_data
from trainwright.report.sections.record_section import (
    Fact,
    view_choices,
    view_estimate,
    view_record,
    view_times,
)
from trainwright.report.sections.verdict_section import view_judged
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATE = "page.html.jinja"
_CONTRACT_LETTERS = 20_000
_WRONG_SHAPE = (ValueError, KeyError, TypeError, AttributeError, IndexError)


def write_report(folder: RunFolder) -> Path:
    """Write `report.html` from the folder and return its path; for `purpose: production` also the
    model card.

    It can be rewritten at any time: missing parts are skipped, damaged ones are listed, and the
    output is deterministic.

    Raises:
        StorageFailed: the page cannot be written; an older one is kept.
    """
    reached("report")
    contents = read_contents(folder)
    write_text(folder.report, render_report(contents))
    contract = contents.plan.get("contract")
    purpose = contract.get("purpose") if isinstance(contract, dict) else None
    if purpose == "production" and contents.judged and not contents.damaged:
        # Imported here: few runs have a card.
        from trainwright.report.model_card import CARD, write_card

        write_card(folder, folder.path / CARD)
    return folder.report


def render_report(contents: Contents) -> str:
    """Render the page: no scripts, no external resources, all text of the data escaped."""
    template = page_environment().get_template(_TEMPLATE)
    return template.render(name=contents.name, **_views(contents))


def _views(contents: Contents) -> dict[str, Json]:
    """Template variables. A section whose file has an unknown format is skipped and listed as
    damaged."""
    damaged = list(contents.damaged)

    def view(file: str, build: Callable[[], Sequence[object]]) -> Sequence[object]:
        try:
            return build()
        except _WRONG_SHAPE as error:
            damaged.append((file, f"{type(error).__name__}: {error}"))
            return ()

    def of_judged(build: Callable[[StoredEvaluation], Sequence[object]]) -> Sequence[object]:
        return view(
            "evaluation.json", lambda: [each for one in contents.judged for each in build(one)]
        )

    return {
        "head": view("plan.json", lambda: _head(contents)),
        "judged": of_judged(lambda one: [view_judged(one)]),
        "figures": [
            *of_judged(lambda one: draw_evaluation(one.evaluation.curves, in_folds=one.in_folds)),
            *view(
                "predictions.parquet",
                lambda: [figure for one in contents.forecasts for figure in draw_forecast(one)],
            ),
        ],
        "calibrations": of_judged(_calibrations),
        "ladders": view("ladder.json", lambda: _ladders(contents)) if contents.ladder else (),
        "confusions": of_judged(lambda one: view_confusion(one.evaluation.curves)),
        "explanations": view(
            "explanation.json",
            lambda: _explanations(contents) if contents.explanations else (),
        ),
        "questions": of_judged(_questions),
        "samples": of_judged(_samples),
        "times": of_judged(lambda one: view_times(one.seconds)),
        "training": view("signals.jsonl", lambda: [view_training(contents)]),
        "data": view("data/manifest.json", lambda: view_data(contents)),
        "choices": view("plan.json", lambda: view_choices(contents.plan)),
        "estimate": view("plan.json", lambda: view_estimate(contents.plan)),
        "record": view("record.json", lambda: view_record(contents)),
        "contract": clean_lines(redact(contents.contract_text), _CONTRACT_LETTERS),
        "damaged": damaged,
    }


def _explanations(contents: Contents) -> Sequence[object]:
    from trainwright.report.sections.explanation_section import view_explanation

    return [view_explanation(one) for one in contents.explanations]


def _ladders(contents: Contents) -> Sequence[object]:
    # Imported here: few runs select a model.
    from trainwright.report.sections.ladder_section import view_ladder

    return view_ladder(contents.ladder)


def _calibrations(judged: StoredEvaluation) -> Sequence[object]:
    if not judged.calibration:
        return ()
    # Imported here: few models are calibrated.
    from trainwright.report.sections.calibration_section import view_calibration

    return view_calibration(judged.calibration, in_folds=judged.in_folds)


def _questions(judged: StoredEvaluation) -> Sequence[object]:
    if not judged.questions:
        return ()
    # Imported here, as below: only decoders answer and write.
    from trainwright.report.sections.texts_section import view_questions

    return view_questions(judged.questions)


def _samples(judged: StoredEvaluation) -> Sequence[object]:
    if not judged.samples:
        return ()
    from trainwright.report.sections.texts_section import view_samples

    return view_samples(judged.samples)


def _head(contents: Contents) -> tuple[Fact, ...]:
    contract = contents.plan.get("contract") or {}
    facts = (
        Fact("Task", str(contract.get("task", ""))),
        Fact("Target", _named((contract.get("data") or {}).get("target", ""))),
        Fact("Model", str((contract.get("model") or {}).get("kind", ""))),
        Fact("Started", show_when(str(contents.record.get("started", "")))),
    )
    return tuple(fact for fact in facts if fact.value)


def _named(target: Json) -> str:
    return ", ".join(map(str, target)) if isinstance(target, list) else str(target)


@cache
def page_environment() -> Environment:
    """Template environment with autoescaping."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = _short
    environment.filters["lines"] = _as_written
    return environment


def _fit(value: object) -> object:
    """Finalizer of every printed value: no text of the data reaches the page unsanitised."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return value


def _short(text: str, room: int) -> Markup:
    return escape(clean(text, room))


def _as_written(text: str) -> Markup:
    """Text whose lines are already sanitised."""
    return escape(text)
