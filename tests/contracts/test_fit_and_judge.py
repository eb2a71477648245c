"""`tw.fit` trains without the test rows, and `tw.judge` gives the verdict of `tw.train`."""

from __future__ import annotations

import hashlib
import random
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Never

import polars as pl
import pytest

import trainwright as tw
from trainwright.core.errors import Interrupted, Mistake, NonFinite
from trainwright.core.files import read_json
from trainwright.core.progress import Progress
from trainwright.data.read_table import RawTable
from trainwright.run import audit_data, prepared_data
from trainwright.run.prepare import prepare_run
from trainwright.run.prepared_data import PreparedData
from trainwright.tracking.events import Event, Validated

pytestmark = pytest.mark.usefixtures("whole_pages")

SECTIONS: dict[str, Any] = {
    "data": {"path": "frame://people", "target": "bought"},
    "model": {"kind": "boosting", "max_trees": 6},
    "metric": {"name": "roc_auc", "target": 0.6, "resamples": 100},
    "slices": [{"column": "city"}],
}

KINDS: dict[str, dict[str, Any]] = {
    "boosting": {},
    "linear": {"model": {"kind": "linear"}},
    "seeds": {"training": {"seeds": 2}},
    "folds": {"data": {**SECTIONS["data"], "split": {"kind": "stratified", "folds": 3}}},
    "time folds": {
        "data": {
            **SECTIONS["data"],
            "split": {"kind": "time", "column": "age", "folds": 2, "validation": 0.2},
        }
    },
    "network": {"model": {"kind": "mlp", "hidden": [8]}, "training": {"num_epochs": 2}},
}


FIRST = {"boosting", "network"}


def people(rows: int = 400) -> pl.DataFrame:
    draw = random.Random(1)
    ages = [draw.gauss(45, 15) for _ in range(rows)]
    bought = ["yes" if age + draw.gauss(0, 12) > 50 else "no" for age in ages]
    return pl.DataFrame({"age": ages, "city": [draw.choice("ab") for _ in ages], "bought": bought})


def prepared(**sections: Any) -> PreparedData:
    return tw.prepare({**SECTIONS, **sections}, frames={"people": people()})


def judged(folder: Path) -> tuple[object, bytes]:
    """What is judged in a run, without its times, and the predictions of its test rows."""
    written = read_json(folder / "evaluation.json")
    parts = {key: written[key] for key in ("evaluation", "verdict", "by_fold", "by_seed")}
    return parts, (folder / "predictions.parquet").read_bytes()


@pytest.mark.parametrize(
    "kind",
    [
        "boosting",
        pytest.param("network", marks=pytest.mark.torch),
        *(pytest.param(one, marks=pytest.mark.extended) for one in sorted(set(KINDS) - FIRST)),
    ],
)
def test_both_give_the_verdict_of_train(kind: str, tmp_path: Path) -> None:
    if kind == "network":
        pytest.importorskip("torch")
    sections = {**SECTIONS, **KINDS[kind]}
    fitted = tw.fit(prepared(**KINDS[kind]), runs=tmp_path, name="one")
    assert not (fitted.folder / "evaluation.json").exists()
    assert read_json(fitted.folder / "record.json")["ending"]["state"] == "fitted"
    run = tw.judge(fitted)
    alone = tw.train(sections, frames={"people": people()}, runs=tmp_path, name="two")
    assert judged(run.folder) == judged(alone.folder)
    assert run.report.is_file()
    assert {path.name for path in run.folder.iterdir()} == {
        path.name for path in alone.folder.iterdir()
    }
    assert tw.judge(fitted).evaluation == run.evaluation


class Closed:
    """A part that has a length and refuses everything else."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getattr__(self, name: str) -> Never:
        raise AssertionError(f"the test rows were opened: {name}")


def closed(data: PreparedData) -> PreparedData:
    """The same, with rows that nothing may read but the training and validation parts."""
    raw, rows = data.ready.raw, data.ready.prepared
    assert isinstance(raw, RawTable)
    shut: Any = Closed(len(rows.test))
    frames: Any = {name: Closed(frame.height) for name, frame in raw.frames.items()}
    ready = replace(data.ready, prepared=replace(rows, test=shut), raw=replace(raw, frames=frames))
    return replace(data, ready=ready)


def test_ten_fits_open_no_test_row(tmp_path: Path) -> None:
    data = closed(prepared())
    fits = [
        tw.fit(data, overrides=[f"model.num_leaves={leaves}"], runs=tmp_path, progress=False)
        for leaves in range(2, 12)
    ]
    assert len({one.score for one in fits}) > 1
    last = fits[-1]
    assert 0.5 < last.validation.metrics["roc_auc"].low < last.score < 1
    assert last.history["step"].to_list()[-1] <= 6
    assert {"train_binary_logloss", "val_binary_logloss"} <= set(last.history.columns)
    with pytest.raises(AssertionError, match="the test rows were opened"):
        tw.judge(last)


def test_a_budget_is_planned_without_a_test_row(tmp_path: Path) -> None:
    data = closed(prepared(budget={"hours": 0.02}))
    assert tw.fit(data, runs=tmp_path).kind in ("finished", "budget")


@pytest.mark.torch
def test_a_network_opens_no_test_row(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fitted = tw.fit(closed(prepared(**KINDS["network"])), runs=tmp_path)
    assert fitted.history["step"].to_list() == sorted(fitted.history["step"])
    assert {"val_loss", "val_roc_auc"} <= set(fitted.history.columns)
    assert fitted.kind == "finished"
    assert fitted.seconds > 0


def test_what_is_prepared_is_not_read_examined_or_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = prepared()
    tw.fit(data, runs=tmp_path)
    before = set(sys.modules)

    def never(*_: object, **__: object) -> Never:
        raise AssertionError("done twice")

    for module, name in [
        (prepare_run, "read_data"),
        (prepare_run, "prepare"),
        (audit_data, "_look"),
    ]:
        monkeypatch.setattr(module, name, never)
    tw.fit(data, overrides=["model.learning_rate=0.2"], runs=tmp_path)
    assert set(sys.modules) == before


def test_a_contract_that_prepares_the_rows_otherwise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"data\.split"):
        tw.fit(prepared(), overrides=["data.split={kind: random}"], runs=tmp_path)
    assert not list(tmp_path.iterdir())


@dataclass
class Watch:
    """Stops at a step, and keeps what it observes."""

    last: int
    seen: list[Event] = field(default_factory=list)

    def reason(self, progress: Progress) -> Any:
        from trainwright.engine.stopping.stop_rules import StopReason

        return StopReason("early", "seen enough") if progress.step >= self.last else None

    def observe(self, event: Event) -> None:
        self.seen.append(event)


@pytest.mark.extended
@pytest.mark.torch
@pytest.mark.parametrize("kind", ["boosting", "network"])
def test_the_callers_rules_and_observers(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    watch = Watch(3)
    data = prepared(**KINDS[kind])
    fitted = tw.fit(data, runs=tmp_path, stop_rules=[watch], observers=[watch])
    assert fitted.kind == "early"
    assert "seen enough" in fitted.reason
    assert max(event.progress.step for event in watch.seen if isinstance(event, Validated)) == 3
    assert tw.judge(fitted).verdict.clauses


class Broken:
    def observe(self, event: Event) -> Never:
        raise ValueError("a bug of the caller")


def test_an_observer_that_fails_does_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tw.fit(prepared(), runs=tmp_path, observers=[Broken()]).kind == "finished"
    assert "a bug of the caller" in capsys.readouterr().err


def test_a_run_that_is_judged_is_not_fitted_again(tmp_path: Path) -> None:
    data = prepared()
    tw.judge(tw.fit(data, runs=tmp_path, name="one"))
    with pytest.raises(Mistake, match="judged already"):
        tw.fit(data, runs=tmp_path, name="one", resume=True)


def test_a_fitted_run_goes_on_to_its_verdict(tmp_path: Path) -> None:
    data = prepared()
    tw.fit(data, runs=tmp_path, name="one")
    again = tw.fit(data, runs=tmp_path, name="one", resume=True)
    alone = tw.train(SECTIONS, frames={"people": people()}, runs=tmp_path, name="two")
    assert judged(tw.judge(again).folder) == judged(alone.folder)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    people().write_csv(path)
    return path


def test_data_that_changed_after_the_fit_is_not_judged(rows: Path, tmp_path: Path) -> None:
    sections = {**SECTIONS, "data": {"path": str(rows), "target": "bought"}}
    fitted = tw.fit(sections, runs=tmp_path / "runs")
    people(300).write_csv(rows)
    with pytest.raises(tw.DataChanged, match=r"people\.csv"):
        tw.judge(fitted)


def test_a_function_without_data_is_a_mistake() -> None:
    with pytest.raises(Mistake, match=r"tw\.prepare"):
        tw.judge(len)  # type: ignore[call-overload]


@pytest.mark.extended
@pytest.mark.torch
def test_a_finished_run_is_copied_by_each_judgement(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("fsspec")
    copied = {"num_epochs": 1, "checkpointing": {"remote": f"file://{tmp_path}/away"}}
    data = prepared(**{**KINDS["network"], "training": copied})
    fitted = tw.fit(data, runs=tmp_path / "runs", name="one")
    run = tw.judge(fitted)
    content = (run.folder / "evaluation.json").read_bytes()
    copy = tmp_path / "away" / "one" / "files" / hashlib.sha256(content).hexdigest()
    assert copy.read_bytes() == content
    shutil.rmtree(tmp_path / "away")
    tw.judge(fitted)
    assert copy.read_bytes() == content


OTHER_KINDS = {
    "images": ["data={kind: images, path: x}"],
    "tokens": [
        "data={kind: tokens, path: x}",
        "model={kind: gpt}",
        "metric={name: perplexity, target: 3}",
    ],
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_data_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [*OTHER_KINDS[kind], "slices=[]"]
    with pytest.raises(Mistake, match=r"data\.kind of the contract differs") as raised:
        tw.fit(prepared(), overrides=words, runs=tmp_path)
    (problem,) = raised.value.problems
    assert problem.path == "data.kind"
    assert not list(tmp_path.iterdir())


def test_the_time_of_preparing_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept, prepares = time.monotonic, [0.0], prepare_run.make_ready

    def slowly(*given: Any) -> Any:
        slept[0] += 1000
        return prepares(*given)

    monkeypatch.setattr(time, "monotonic", lambda: now() + slept[0])
    monkeypatch.setattr(prepared_data, "make_ready", slowly)
    sections = {**SECTIONS, "data": {"path": str(tmp_path / "people.csv"), "target": "bought"}}
    people().write_csv(tmp_path / "people.csv")
    fitted = tw.fit({**sections, "budget": {"hours": 1}}, runs=tmp_path / "runs")
    spent = read_json(fitted.folder / "record.json")["budget"]
    assert 1000 <= spent["seconds_before"] < 2000
    again = tw.fit(prepared(budget={"hours": 1}), runs=tmp_path / "runs")
    assert read_json(again.folder / "record.json")["budget"]["seconds_before"] < 1000


def interrupted_by(notice: Path, folder: Path) -> bool:
    ending = read_json(folder / "record.json")["ending"]
    assert (ending["state"], ending["exit_code"]) == ("interrupted", 75)
    return f"stopped by the notice {notice}" in ending["reason"]


@pytest.mark.extended
def test_a_preemption_notice_ends_a_fit_and_a_judgement(tmp_path: Path) -> None:
    notice, runs = tmp_path / "notice", tmp_path / "runs"
    data = prepared(resume={"notice": str(notice)})
    alone = tw.fit(data, runs=runs, name="alone")
    notice.touch()
    with pytest.raises(Interrupted, match="stopped by the notice"):
        tw.fit(data, runs=runs, name="one")
    assert interrupted_by(notice, runs / "one")
    notice.unlink()
    fitted = tw.fit(data, runs=runs, name="one", resume=True)
    assert trees_of(fitted) == trees_of(alone)
    notice.touch()
    with pytest.raises(Interrupted, match="stopped by the notice"):
        tw.judge(fitted)
    assert interrupted_by(notice, runs / "one")
    assert not (runs / "one" / "evaluation.json").exists()
    notice.unlink()
    assert judged(tw.judge(fitted).folder) == judged(tw.judge(alone).folder)


@dataclass
class Announces:
    """Makes the notice at the third tree, and grows slowly from there."""

    notice: Path

    def observe(self, event: Event) -> None:
        if isinstance(event, Validated) and event.progress.step >= 3:
            self.notice.touch()
            time.sleep(0.01)


def test_a_preemption_notice_ends_a_training_between_two_trees(tmp_path: Path) -> None:
    notice = tmp_path / "notice"
    rounds = {"max_trees": 500, "early_stopping_rounds": 500}
    data = prepared(
        model={"kind": "boosting", **rounds},
        resume={"notice": str(notice), "notice_every_seconds": 0.01},
    )
    with pytest.raises(Interrupted, match="go on with"):
        tw.fit(data, runs=tmp_path / "runs", name="one", observers=[Announces(notice)])
    assert interrupted_by(notice, tmp_path / "runs/one")
    assert list((tmp_path / "runs/one/checkpoints").glob("trees-*"))


def trees_of(fitted: tw.FittedRun) -> str:
    scorer: Any = fitted.predictor.scorer
    return str(scorer.booster.model_to_string())


@pytest.mark.torch
@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("budget", [{}, {"budget": {"hours": 1}}])
def test_a_resume_leaves_trees_that_a_rule_has_ended(
    budget: dict[str, Any], last: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    data = prepared(**budget)
    fitted = tw.fit(data, runs=tmp_path, name="one", stop_rules=[Watch(last)])
    for rules in ([Watch(last)], [Watch(5)], []):
        again = tw.fit(data, runs=tmp_path, name="one", resume=True, stop_rules=rules)
        assert trees_of(again) == trees_of(fitted)
        assert (again.kind, again.reason) == (fitted.kind, fitted.reason)
        assert fitted.kind == "early"
    assert "comes out otherwise" not in capsys.readouterr().err


@dataclass
class Pause:
    """Interrupts once, at a step."""

    at: int
    kind: Any

    def reason(self, progress: Progress) -> Any:
        from trainwright.engine.stopping.stop_rules import StopReason

        return StopReason(self.kind, "for today") if progress.step == self.at else None


@pytest.mark.torch
@pytest.mark.parametrize(("kind", "error"), [("interrupted", Interrupted), ("halted", NonFinite)])
def test_a_resume_goes_on_from_trees_that_a_rule_has_interrupted(
    kind: str, error: type[Exception], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    data = prepared(budget={"hours": 1})
    alone = tw.fit(data, runs=tmp_path, name="alone")
    with pytest.raises(error, match="for today"):
        tw.fit(data, runs=tmp_path, name="one", stop_rules=[Pause(3, kind)])
    again = tw.fit(data, runs=tmp_path, name="one", resume=True)
    assert trees_of(again) == trees_of(alone)
    assert (again.kind, again.reason) == (alone.kind, alone.reason)
    said = capsys.readouterr().err
    assert "goes on from tree 3" in said
    assert "comes out otherwise" not in said


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("plan.json", "cut"),
        ("plan.json", "removed"),
        ("plan.json", "emptied"),
        ("data/manifest.json", "cut"),
        ("data/manifest.json", "removed"),
        ("record.json", "cut"),
    ],
)
def test_a_damaged_run_is_named_whichever_file_a_resume_reads(
    damage: str, file: str, tmp_path: Path
) -> None:
    data = prepared()
    tw.fit(data, runs=tmp_path, name="one")
    path = tmp_path / "one" / file
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:60])
    elif damage == "removed":
        path.unlink()
    else:
        path.write_text("{}")
    with pytest.raises(tw.TrainwrightError, match=r"run one|manifest\.json"):
        tw.fit(data, runs=tmp_path, name="one", resume=True)
