"""`tw.fit` refuses, locks, saves and explains as a run from a contract does."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from command import tree  # noqa: E402
from trainwright.checkpoint.state import Snapshot, Stateful  # noqa: E402
from trainwright.core.errors import (  # noqa: E402
    DataChanged,
    Interrupted,
    Mistake,
    NonFinite,
    NoValidCheckpoint,
    RunLocked,
)
from trainwright.core.files import read_json  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.doctor.verify_run import verify_run  # noqa: E402
from trainwright.engine.job import NoCheckpoints  # noqa: E402
from trainwright.run.after.evaluate_rows import evaluate_rows, predict_file  # noqa: E402
from trainwright.run.after.export_weights import export_checkpoint, export_model  # noqa: E402
from trainwright.run.judging.evaluation_file import read_judged  # noqa: E402
from trainwright.run.request import (  # noqa: E402
    ExtensionRequest,
    request_again,
)
from trainwright.tracking.events import Event, StepKept, StepOutcome  # noqa: E402
from trainwright.tracking.lock import RunLock  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402
from trainwright.tracking.run_list import list_runs  # noqa: E402
from trainwright.tracking.signals import read_signals  # noqa: E402

pytestmark = pytest.mark.torch
STEPS = 12


def squared_error(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    inputs, target = batch
    return tw.LossSum((model(inputs).squeeze(1) - target).square().sum(), len(target))


def make_job(
    folder: Path,
    *,
    dropout: float = 0.0,
    rate: float = 1e-2,
    decay: float = 0.01,
    batch_size: int = 4,
    last: int = STEPS,
    shift: float = 0.0,
) -> tw.Job:
    torch.manual_seed(0)
    inputs = torch.randn(24, 3) + shift
    target = inputs.sum(dim=1)
    layers = [nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    patience = tw.Patience("val_loss", "min", patience=100)

    def validate() -> dict[str, float]:
        loss = squared_error(model, (inputs, target))
        return {"val_loss": float(loss.sum) / loss.targets}

    return tw.Job(
        model=model,
        feed=tw.Feed([inputs, target], batch_size=batch_size),
        step=tw.OptimizerStep(model, squared_error, optimizer),
        knobs=(tw.LearningRate(optimizer, tw.cosine_with_warmup(STEPS, 2, floor=0.1)),),
        stop_rules=(tw.StepLimit(last), patience),
        validate=validate,
        validate_every=tw.Every(4),
        patience=patience,
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
            "random": tw.RandomState(),
            "patience": patience,
        },
    )


def without(job: tw.Job, name: str) -> tw.Job:
    return replace(job, state={key: part for key, part in job.state.items() if key != name})


def weights(job: tw.Job) -> list[object]:
    return [tensor.tolist() for tensor in job.model.state_dict().values()]


class AtStep:
    """Does something once, after a step."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        self.step, self.act = step, act

    def observe(self, event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == self.step:
            self.act()


@pytest.mark.row("F-61")
@pytest.mark.parametrize(
    ("part", "what"),
    [
        ("model", "the model's weights"),
        ("optimizer", "the optimizer"),
        ("patience", "patience"),
        ("random", "the random numbers"),
    ],
)
def test_a_state_with_a_gap_is_refused_before_anything_is_written(
    part: str, what: str, tmp_path: Path
) -> None:
    job = without(make_job(tmp_path / "kept", dropout=0.5), part)
    with pytest.raises(Mistake, match=what) as refused:
        tw.fit(job)
    assert f'"{part}"' in refused.value.problems[0].fix
    assert not (tmp_path / "kept").exists()


def test_random_numbers_of_an_objective_are_noticed_at_its_first_step(tmp_path: Path) -> None:
    job = without(make_job(tmp_path), "random")

    def noisy(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        inputs, target = batch
        return squared_error(model, (inputs + torch.randn_like(inputs), target))

    optimizer = torch.optim.SGD(job.model.parameters(), lr=1e-3)
    kept = tw.OptimizerState(optimizer, job.model.named_parameters())
    job = replace(
        job,
        step=tw.OptimizerStep(job.model, noisy, optimizer),
        knobs=(),
        state={**job.state, "optimizer": kept},
    )
    with pytest.raises(Mistake, match="the first step drew some"):
        tw.fit(job)


def test_a_job_that_draws_no_random_numbers_needs_no_part_for_them(tmp_path: Path) -> None:
    assert tw.fit(without(make_job(tmp_path), "random")).kind == "finished"


class OwnWeights:
    """A part written by the user."""

    def __init__(self, model: nn.Module, *, whole: bool) -> None:
        self.model, self.whole = model, whole

    def snapshot(self) -> Snapshot:
        tensors = dict(list(self.model.state_dict().items())[0 if self.whole else 1 :])
        return Snapshot(tensors=tensors)

    def restore(self, snapshot: Snapshot) -> None:
        self.model.load_state_dict(dict(snapshot.tensors))


@pytest.mark.parametrize("whole", [True, False])
def test_an_own_part_counts_where_it_holds_every_weight(whole: bool, tmp_path: Path) -> None:
    job = make_job(tmp_path)
    own: Mapping[str, Stateful] = {**job.state, "model": OwnWeights(job.model, whole=whole)}
    job = replace(job, state=own)
    if whole:
        assert tw.fit(job).kind == "finished"
    else:
        with pytest.raises(Mistake, match=r"holds 0\.weight"):
            tw.fit(job)


@pytest.mark.row("F-61")
@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"rate": 2e-2}, "optimizer.0.lr"),
        ({"decay": 0.1}, "optimizer.0.weight_decay"),
        ({"batch_size": 6}, "feed.batch_size"),
        ({"dropout": 0.5}, "model.2"),
    ],
)
def test_a_resume_with_another_setting_names_it(
    changed: dict[str, float], path: str, tmp_path: Path
) -> None:
    tw.fit(make_job(tmp_path, last=6))
    before = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(Mistake) as refused:
        tw.fit(make_job(tmp_path, **changed))  # type: ignore[arg-type]
    assert path in [problem.path for problem in refused.value.problems]
    assert sorted(one.name for one in tmp_path.iterdir()) == before


def test_another_schedule_is_named(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path, last=6))
    job = make_job(tmp_path)
    optimizer = torch.optim.AdamW(job.model.parameters(), lr=1e-2, weight_decay=0.01)
    longer = tw.LearningRate(optimizer, tw.cosine_with_warmup(2 * STEPS, 2, floor=0.1))
    with pytest.raises(Mistake, match=r"learning_rate\.factor_at_step"):
        tw.fit(replace(job, knobs=(longer,)))


def test_other_rows_are_other_data(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path, last=6))
    with pytest.raises(DataChanged):
        tw.fit(make_job(tmp_path, shift=1.0))


def test_a_changed_setting_can_be_taken_up_and_is_announced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.fit(make_job(tmp_path, last=6))
    job = make_job(tmp_path, decay=0.5)
    assert tw.fit(job, changed="record").kind == "finished"
    assert "optimizer.0.weight_decay 0.01 -> 0.5" in capsys.readouterr().err
    optimizer = job.state["optimizer"]
    assert isinstance(optimizer, tw.OptimizerState)
    assert optimizer.optimizer.param_groups[0]["weight_decay"] == 0.5


class InTurn:
    """A step of two optimizers, one for each half of the model."""

    def __init__(self, model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
        self.steps = [tw.OptimizerStep(model, squared_error, one) for one in optimizers]

    def __call__(self, work: StepBatches) -> StepOutcome:
        return [one(work) for one in self.steps][-1]


def with_two_optimizers(folder: Path, decay: float, last: int) -> tw.Job:
    job = make_job(folder, last=last)
    first, second = job.model[0], job.model[3]
    optimizers = [
        torch.optim.AdamW(first.parameters(), lr=1e-2, weight_decay=0.01),
        torch.optim.AdamW(second.parameters(), lr=1e-2, weight_decay=decay),
    ]
    state = {
        **job.state,
        "optimizer": tw.OptimizerState(optimizers[0], job.model.named_parameters()),
        "head": tw.OptimizerState(optimizers[1], job.model.named_parameters()),
    }
    return replace(job, step=InTurn(job.model, optimizers), knobs=(), state=state)


def test_a_changed_option_of_the_second_optimizer_is_taken_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.fit(with_two_optimizers(tmp_path, 0.01, 6))
    job = with_two_optimizers(tmp_path, 0.5, STEPS)
    tw.fit(job, changed="record")
    assert "optimizer_2.0.weight_decay 0.01 -> 0.5" in capsys.readouterr().err
    head, body = job.state["head"], job.state["optimizer"]
    assert isinstance(head, tw.OptimizerState)
    assert isinstance(body, tw.OptimizerState)
    assert head.optimizer.param_groups[0]["weight_decay"] == 0.5
    assert body.optimizer.param_groups[0]["weight_decay"] == 0.01


@pytest.mark.row("F-61")
def test_the_same_script_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    unbroken = make_job(tmp_path / "unbroken", dropout=0.3)
    tw.fit(unbroken)
    tw.fit(make_job(tmp_path / "cut", dropout=0.3, last=5))
    resumed = make_job(tmp_path / "cut", dropout=0.3)
    tw.fit(resumed)
    assert weights(resumed) == weights(unbroken)


@pytest.mark.row("F-61")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_with_exit_code_75(number: int, tmp_path: Path) -> None:
    unbroken = make_job(tmp_path / "unbroken", dropout=0.3)
    tw.fit(unbroken)
    job = make_job(tmp_path / "stopped", dropout=0.3)
    stop = AtStep(5, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match="after step 5") as stopped:
        tw.fit(replace(job, observers=(stop,)))
    assert isinstance(stopped.value, SystemExit)
    assert stopped.value.code == 75
    resumed = make_job(tmp_path / "stopped", dropout=0.3)
    tw.fit(resumed)
    assert weights(resumed) == weights(unbroken)


@pytest.mark.row("F-61")
def test_an_observer_that_raises_does_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError("the dashboard says 503")

    job = make_job(tmp_path)
    ended = tw.fit(replace(job, observers=(AtStep(3, fail),)))
    assert ended.kind == "finished"
    assert capsys.readouterr().err.count("the dashboard says 503") == 1


@pytest.mark.row("F-61")
def test_one_process_trains_into_a_folder(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with RunLock.acquire(tmp_path / "lock"), pytest.raises(RunLocked):
        tw.fit(job)
    assert tw.fit(job).kind == "finished"


def test_a_value_that_the_validation_does_not_give_is_named(tmp_path: Path) -> None:
    job = replace(make_job(tmp_path), validate=lambda: {"accuracy": 0.5})
    with pytest.raises(Mistake, match="returns no 'val_loss'") as refused:
        tw.fit(job)
    assert refused.value.problems[0].found == "accuracy"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "`validate` returned nothing"),
        (0.5, "`validate` returned a single value"),
        ({"val_loss": "low"}, "the value 'val_loss' is not a number"),
        ({"val_loss": torch.zeros(2)}, "the value 'val_loss' is not a number"),
    ],
)
def test_a_validation_without_named_numbers_is_a_mistake(
    returned: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(Mistake, match=said) as refused:
        tw.fit(replace(make_job(tmp_path), validate=lambda: returned))
    assert refused.value.problems[0].path == "Job.validate"
    assert 'return {"val_loss": value}' in refused.value.problems[0].fix


def test_a_validation_may_give_a_tensor_of_one_number(tmp_path: Path) -> None:
    job = replace(make_job(tmp_path / "ckpt"), validate=lambda: {"val_loss": torch.tensor(0.5)})
    tw.fit(job, run=tmp_path / "run", progress=False)
    events = (tmp_path / "run" / "events.jsonl").read_text()
    assert '"val_loss":0.5' in events.replace(" ", "")


def test_a_validation_that_is_never_finite_has_no_best(tmp_path: Path) -> None:
    patience = tw.Patience("val_loss", "min", patience=2)
    job = make_job(tmp_path)
    job = replace(
        job,
        validate=lambda: {"val_loss": float("nan")},
        stop_rules=(tw.StepLimit(STEPS), patience),
        patience=patience,
        state={**job.state, "patience": patience},
    )
    ended = tw.fit(job, progress=False)
    assert ended.reason == "val_loss was not a finite number in any of 2 validations"


def test_a_training_that_was_halted_is_an_error(tmp_path: Path) -> None:
    job = make_job(tmp_path)

    def broken(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
        total, targets = squared_error(model, batch)
        return tw.LossSum(total * float("nan"), targets)

    optimizer = torch.optim.SGD(job.model.parameters(), lr=1e-3)
    kept = tw.OptimizerState(optimizer, job.model.named_parameters())
    step = tw.OptimizerStep(job.model, broken, optimizer)
    with pytest.raises(NonFinite, match="max_norm") as halted:
        tw.fit(replace(job, step=step, state={**job.state, "optimizer": kept}))
    assert "training." not in str(halted.value)


def test_the_best_weights_are_put_back(tmp_path: Path) -> None:
    scores = iter([3.0, 1.0, 2.0])
    seen: list[list[object]] = []
    job = make_job(tmp_path)

    def validate() -> dict[str, float]:
        seen.append(weights(job))
        return {"val_loss": next(scores)}

    ended = tw.fit(replace(job, validate=validate), restore_best=True)
    assert ended.reason.endswith("weights of step 8")
    assert weights(job) == seen[1]


def test_the_best_weights_are_those_of_the_model_whatever_other_parts_are_called(
    tmp_path: Path,
) -> None:
    seen: list[list[object]] = []
    scores = iter([3.0, 1.0, 2.0])
    job = make_job(tmp_path)
    state = {"net" if name == "model" else name: part for name, part in job.state.items()}
    teacher = tw.ModuleState(make_job(tmp_path, shift=1.0).model)

    def validate() -> dict[str, float]:
        seen.append(weights(job))
        return {"val_loss": next(scores)}

    job = replace(job, validate=validate, state={**state, "model": teacher})
    tw.fit(job, restore_best=True, progress=False)
    assert weights(job) == seen[1]


def test_progress_and_the_last_loss_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.fit(make_job(tmp_path / "a"))
    shown = capsys.readouterr().err
    assert "trained   all 12 steps · loss " in shown
    assert "validated val_loss" in shown
    tw.fit(make_job(tmp_path / "b"), progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"batch_size": 4, "accumulate": 0}])
def test_an_impossible_feed_is_a_mistake(wrong: dict[str, int]) -> None:
    with pytest.raises(Mistake, match="at least 1"):
        tw.Feed([torch.zeros(8, 2)], **wrong)


def test_what_is_no_rows_at_all_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="cannot take its rows"):
        tw.Feed(object(), batch_size=4)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="a feed needs tensors"):
        tw.Feed([[1, 2, 3]], batch_size=1)  # type: ignore[list-item]


def test_a_run_folder_holds_record_signals_events_and_checkpoints(tmp_path: Path) -> None:
    job = replace(make_job(tmp_path), checkpoints=NoCheckpoints())
    tw.fit(replace(job, stop_rules=(tw.StepLimit(5),)), run=tmp_path / "runs" / "own")
    folder = RunFolder.find(tmp_path / "runs", "own")
    assert read_json(folder.record)["ending"]["state"] == "finished"
    assert [run.state for run in list_runs(tmp_path / "runs")] == ["finished"]
    again = replace(make_job(tmp_path), checkpoints=NoCheckpoints())
    tw.fit(again, run=folder.path)
    assert read_signals(folder.signals)["step"] == [*range(1, STEPS + 1)]
    assert len(read_json(folder.record)["attempts"]) == 2
    assert [one for one in verify_run(folder) if one.status == "broken"] == []
    exported = export_model(folder, tmp_path / "weights.safetensors")
    assert exported.doubt == ""
    assert exported.names == ["0.bias", "0.weight", "3.bias", "3.weight"]


def test_a_training_that_stops_is_recorded_as_interrupted(tmp_path: Path) -> None:
    job = make_job(tmp_path / "kept")
    stop = AtStep(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        tw.fit(replace(job, observers=(stop,)), run=tmp_path / "own")
    ending = read_json(tmp_path / "own" / "record.json")["ending"]
    assert (ending["state"], ending["exit_code"]) == ("interrupted", 75)


def test_weights_of_a_training_that_stopped_are_exported_by_their_step_only(
    tmp_path: Path,
) -> None:
    """Of a run from a contract the newest checkpoint is not its model."""
    job = make_job(tmp_path / "one" / "checkpoints", last=2)
    tw.fit(job, progress=False)
    folder = RunFolder(tmp_path / "one")
    with pytest.raises(Mistake, match="it is not finished"):
        export_model(folder, tmp_path / "weights.safetensors")
    assert export_checkpoint(folder, 2, tmp_path / "weights.safetensors")


def renamed(job: tw.Job, **names: str) -> tw.Job:
    state = {names.get(name, name): part for name, part in job.state.items()}
    return replace(job, checkpoints=NoCheckpoints(), state=state)


def test_weights_are_exported_from_a_part_of_any_name(tmp_path: Path) -> None:
    job = renamed(make_job(tmp_path, last=2), model="net")
    tw.fit(job, run=tmp_path / "own", progress=False)
    output = tmp_path / "weights.safetensors"
    assert export_model(RunFolder.open(tmp_path / "own"), output).doubt == ""
    same = load_file(output)
    assert all(torch.equal(same[name], one) for name, one in job.model.state_dict().items())


@pytest.mark.parametrize("named", [True, False])
def test_the_weights_that_the_validation_saw_are_exported(tmp_path: Path, named: bool) -> None:
    """Under any name; where no checkpoint holds them, the export says so."""
    job = renamed(make_job(tmp_path, last=4))
    mean, weights = tw.EMA(job.model, 0.5), job.state["model"]
    assert isinstance(weights, tw.ModuleState)
    kept = {"averaged": tw.EvaluatedState(mean, weights)} if named else {}
    job = replace(
        job,
        outcome_observers=(tw.AverageUpdate(mean),),
        validate=tw.Evaluating(lambda: {"val_loss": 1.0}, mean),
        validate_every=tw.Every(2),
        state={**job.state, "mean": tw.EMAState(mean), **kept},
    )
    tw.fit(job, run=tmp_path / "own", progress=False)
    output = tmp_path / "weights.safetensors"
    exported = export_model(RunFolder.open(tmp_path / "own"), output)
    with mean.evaluated() if named else contextlib.nullcontext():
        expected = {name: one.clone() for name, one in job.model.state_dict().items()}
    assert load_file(output).keys() == expected.keys()
    assert all(torch.equal(one, expected[name]) for name, one in load_file(output).items())
    assert ("tw.EvaluatedState(mean, weights)" in exported.doubt) is not named


class OwnState:
    """A part of the script's own, which does not say what in it is the model."""

    def __init__(self, model: nn.Module) -> None:
        self._part = tw.ModuleState(model)

    def snapshot(self) -> Snapshot:
        return self._part.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self._part.restore(snapshot)


def test_a_part_of_the_scripts_own_is_exported_by_the_name_model(tmp_path: Path) -> None:
    for name in ("net", "model"):
        job = make_job(tmp_path, last=2)
        job = replace(job, state={**job.state, "model": OwnState(job.model)})
        tw.fit(renamed(job, model=name), run=tmp_path / name, progress=False)
    output = tmp_path / "weights.safetensors"
    with pytest.raises(Mistake, match=r"none is named model(?s:.*)tw\.ModuleState\(model\)"):
        export_model(RunFolder.open(tmp_path / "net"), output)
    assert not output.exists()
    assert export_model(RunFolder.open(tmp_path / "model"), output).names


def test_what_needs_a_contract_says_that_a_script_trained_the_run(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path / "kept", last=2), run=tmp_path / "own", progress=False)
    folder = RunFolder.open(tmp_path / "own")
    for ask in (
        lambda: request_again(folder, ()),
        lambda: read_judged(folder),
        lambda: predict_file(folder, "rows.csv"),
        lambda: evaluate_rows(folder, "rows.csv"),
    ):
        with pytest.raises(Mistake, match="trained by a script"):
            ask()


def refuse_elsewhere(job: tw.Job, run: Path) -> None:
    """Checkpoints of another run are refused, and stay where they are."""
    before = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    weights_before = weights(job)
    with pytest.raises(NoValidCheckpoint, match="belong to another run"):
        tw.fit(job, run=run, progress=False)
    assert sorted(path.name for path in (run / "checkpoints").glob("step-*")) == before
    assert weights(job) == weights_before


@pytest.mark.row("F-58")
@pytest.mark.parametrize("own_place", [False, True])
def test_checkpoints_of_another_script_run_are_refused(tmp_path: Path, own_place: bool) -> None:
    def job(name: str, last: int, rate: float = 1e-2) -> tw.Job:
        made = make_job(tmp_path / name / "checkpoints", last=last, rate=rate)
        return made if own_place else replace(made, checkpoints=NoCheckpoints())

    for name in ("mine", "other"):
        tw.fit(job(name, 4), run=tmp_path / name, progress=False)
        assert verify_run(RunFolder(tmp_path / name))
    shutil.rmtree(tmp_path / "mine" / "checkpoints")
    shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "mine" / "checkpoints")
    refuse_elsewhere(job("mine", 8), tmp_path / "mine")
    broken = [one for one in verify_run(RunFolder(tmp_path / "mine")) if one.status == "broken"]
    assert any("belongs to another run" in one.message for one in broken)
    tw.fit(job("other", 8), run=tmp_path / "other", progress=False)
    others = verify_run(RunFolder(tmp_path / "other"))
    assert [one for one in others if one.status == "broken"] == []
    assert any(one.what == "identity" and one.status == "whole" for one in others)


@pytest.mark.row("F-58")
def test_a_training_that_began_without_a_run_goes_on_in_one(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path / "kept", last=4), progress=False)
    ended = tw.fit(make_job(tmp_path / "kept", last=8), run=tmp_path / "own", progress=False)
    assert ended.progress.step == 8
    assert not (tmp_path / "own" / "identity.json").exists()


def test_checkpoints_that_were_looked_at_before_are_bound_too(tmp_path: Path) -> None:
    for name in ("own", "other"):
        first = make_job(tmp_path / "kept" / name, last=4)
        assert isinstance(first.checkpoints, tw.Checkpoints)
        assert first.checkpoints.names() == []
        tw.fit(first, run=tmp_path / name, progress=False)
    job = make_job(tmp_path / "kept" / "other", last=8)
    assert isinstance(job.checkpoints, tw.Checkpoints)
    assert job.checkpoints.names()
    with pytest.raises(NoValidCheckpoint, match="belong to another run"):
        tw.fit(job, run=tmp_path / "own", progress=False)


def test_a_job_that_is_refused_leaves_its_run_as_it_was(tmp_path: Path) -> None:
    def kept(**changes: float) -> tw.Job:
        return replace(make_job(tmp_path, **changes), checkpoints=NoCheckpoints())  # type: ignore[arg-type]

    run = tmp_path / "own"
    tw.fit(kept(last=4), run=run, progress=False)
    before = {path: one for path, one in tree(run).items() if not path.endswith("lock")}
    with pytest.raises(Mistake, match="was trained with another value"):
        tw.fit(kept(last=8, rate=0.5), run=run, progress=False)
    assert {path: one for path, one in tree(run).items() if not path.endswith("lock")} == before


def test_a_new_run_that_is_refused_has_no_folder(tmp_path: Path) -> None:
    job = replace(make_job(tmp_path, last=4), checkpoints=NoCheckpoints())
    job = replace(job, validate=dict)
    with pytest.raises(Mistake, match="returns no 'val_loss'"):
        tw.fit(replace(job, validate_every=tw.Every(1)), run=tmp_path / "deep" / "own")
    assert not (tmp_path / "deep").exists()


def test_a_script_says_how_it_is_made_longer(tmp_path: Path) -> None:
    tw.fit(make_job(tmp_path / "kept", last=2), run=tmp_path / "own", progress=False)
    with pytest.raises(Mistake, match=r"tw\.StepLimit"):
        request_again(RunFolder.open(tmp_path / "own"), (), ExtensionRequest(5, "epoch"))
    ended = tw.fit(make_job(tmp_path / "kept", last=4), run=tmp_path / "own", progress=False)
    assert ended.progress.step == 4
