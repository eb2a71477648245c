"""The scripts of the guide run, and do what their pages say."""

from __future__ import annotations

import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trainwright as tw  # noqa: E402
from trainwright.tracking.run_list import list_runs  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "script"
TRAIN = SCRIPTS / "train.py"
RUN: set[str] = set()

Printed = pytest.CaptureFixture[str]


def example(name: str) -> pytest.MarkDecorator:
    """The test runs this script."""
    RUN.add(name)
    return pytest.mark.parametrize("script", [SCRIPTS / f"{name}.py"], ids=[name])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said_by(script: Path, printed: Printed) -> str:
    runpy.run_path(str(script))
    return printed.readouterr().out


@example("penalty")
def test_a_network_learns_with_a_gradient_penalty(script: Path, capsys: Printed) -> None:
    kind, loss = said_by(script, capsys).split("; loss ")
    assert kind == "finished"
    assert float(loss) < 0.1


@example("loader")
def test_a_data_loader_feeds_a_training(script: Path, capsys: Printed) -> None:
    # 16 steps of at most 64 rows go through the 1,000 rows once.
    assert said_by(script, capsys) == "6256 rows in 100 steps\n"


@pytest.mark.extended
@example("search")
def test_the_best_of_many_fits_is_judged(script: Path, here: Path, capsys: Printed) -> None:
    fitted, columns, verdict = said_by(script, capsys).splitlines()
    assert re.fullmatch(r"validation 0\.\d+ \(0\.\d+ to [01]\.\d+\), \d+ trees kept", fitted)
    assert columns == "['step', 'train_binary_logloss', 'val_binary_logloss']"
    assert verdict.startswith("met: test 0.9")
    states = [run.state for run in list_runs(here / "runs" / "search")]
    assert sorted(states) == ["finished", "fitted", "fitted"]


@pytest.mark.extended
@example("grid_search")
def test_estimators_are_searched_and_cross_validated(script: Path, capsys: Printed) -> None:
    searched, named, line = said_by(script, capsys).splitlines()
    assert re.fullmatch(r"\{'model__num_leaves': [28]\}: roc_auc 0\.\d+ over 3 folds", searched)
    assert named.startswith("['no' 'yes'], ['age' 'city']: [[")
    assert line == "R2 0.999"


@example("added_rule")
def test_a_rule_of_the_caller_ends_a_training(script: Path, capsys: Printed) -> None:
    assert said_by(script, capsys) == "early: the loss is above 0.1, 10 trees kept\n"


@pytest.mark.extended
@example("judge")
def test_a_model_of_ones_own_is_judged_from_an_empty_folder(
    script: Path, here: Path, capsys: Printed
) -> None:
    assert said_by(script, capsys) == "met: roc_auc >= 0.7, 2 slices\n"
    assert said_by(script, capsys) == "met: roc_auc >= 0.7, 2 slices\n"
    assert [path.name for path in sorted((here / "runs").iterdir())] == ["forest-1", "forest-2"]
    assert (here / "runs" / "forest-1" / "report.html").is_file()


@example("named_signals")
def test_the_script_reads_the_signals_that_it_named(script: Path, capsys: Printed) -> None:
    reason, steps, last = said_by(script, capsys).splitlines()
    assert "200" in reason
    assert steps.startswith("200 steps; within one: ")
    assert last.endswith("in the last window")


@pytest.mark.extended
@example("ramps_and_averages")
def test_the_mean_is_better_than_what_it_is_made_of(script: Path, capsys: Printed) -> None:
    said = said_by(script, capsys)
    # 3,584 rows an epoch: steps of 64 to row 2,048, of 128 to row 4,096, then of 256.
    found = re.fullmatch(
        r"(\d+) steps; noise scale (\d+) rows\n"
        r"loss of the trained weights (.*), of the mean of 8 (.*)\n",
        said,
    )
    steps, noise, trained, averaged = map(float, found.groups())
    assert steps == (32 + 12) + (4 + 12) + 18 * 14
    assert noise > 0
    assert averaged < trained
    assert said_by(script, capsys) == said, "from its last checkpoint it ends as it did"


# The parts in somebody's own loop.


@example("own_windows")
def test_a_rate_that_is_too_low_is_told_once_and_every_window_is_written(
    script: Path, capsys: Printed
) -> None:
    low, windows = said_by(script, capsys).splitlines()
    assert low.startswith("the learning rate looks too low")
    assert windows.startswith("8 windows; first layer: ")


@example("own_feed")
def test_the_feed_can_be_moved_anywhere(script: Path, capsys: Printed) -> None:
    said = said_by(script, capsys)
    assert "epoch 9, 10000 samples" in said
    assert "the same rows: True" in said


@example("own_guard")
def test_the_guard_names_the_bad_row(script: Path, capsys: Printed) -> None:
    said = said_by(script, capsys).splitlines()
    assert said == ["dropped, with row 123 in it: True"] * 2 + ["weights are finite: True"]


@example("own_signals")
def test_every_step_is_among_the_signals(script: Path, capsys: Printed) -> None:
    said = said_by(script, capsys)
    first, last = re.fullmatch(r"200 steps; loss (.*) to (.*)\n", said).groups()
    assert float(last) < float(first) / 2


@example("own_checkpoints")
def test_a_loop_that_goes_on_ends_with_the_same_weights(
    script: Path, here: Path, capsys: Printed
) -> None:
    began, whole = said_by(script, capsys).split(";")
    ended, same = said_by(script, capsys).split(";")
    shutil.rmtree(here / "own_loop_checkpoints" / "step-0000000060")
    again, resumed = said_by(script, capsys).split(";")
    assert [began[-2:], ended[-2:], again[-2:]] == [" 0", "60", "40"]
    assert whole == same == resumed


@example("own_precision")
def test_number_format_and_kernels_can_be_chosen_by_a_measurement(
    script: Path, capsys: Printed
) -> None:
    first, last = said_by(script, capsys).splitlines()
    assert first.endswith("they agree: True")
    assert last.endswith("weights are torch.float32")
    assert float(last.split()[1].strip(";")) < float(first.split()[3].strip(","))


# The whole loop.


def run_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: Path) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    return runpy.run_path(str(script))


def weights(names: dict[str, object]) -> list[object]:
    model = names["model"]
    assert isinstance(model, torch.nn.Module)
    return [tensor.tolist() for tensor in model.state_dict().values()]


def test_a_training_of_ones_own_is_under_forty_lines() -> None:
    assert len(TRAIN.read_text(encoding="utf-8").splitlines()) < 40


@example("train")
def test_a_training_goes_on_where_it_was_stopped(
    script: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    unbroken = run_in(here / "unbroken", monkeypatch, script)
    assert "finished at step 1120" in capsys.readouterr().out

    class Killed(Exception):
        pass

    validations = []
    train_again = tw.fit

    def killed_at_the_fifth_validation(job: tw.Job) -> object:
        def validate() -> object:
            validations.append(1)
            if len(validations) == 5:
                raise Killed
            return job.validate()

        return train_again(replace(job, validate=validate))

    with monkeypatch.context() as patch:
        patch.setattr(tw, "fit", killed_at_the_fifth_validation)
        with pytest.raises(Killed):
            run_in(here / "broken", monkeypatch, script)
    resumed = run_in(here / "broken", monkeypatch, script)
    assert weights(resumed) == weights(unbroken)
    assert getattr(resumed["ended"], "kind", None) == "finished"

    again = run_in(here / "broken", monkeypatch, script)
    assert weights(again) == weights(unbroken)


def test_every_example_is_run() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == RUN
