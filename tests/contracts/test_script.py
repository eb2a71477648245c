"""The script way: the example runs, can be stopped and started again, and fits its promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trainwright as tw  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "script" / "train.py"


def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    return runpy.run_path(str(SCRIPT))


def weights(names: dict[str, object]) -> list[object]:
    model = names["model"]
    assert isinstance(model, torch.nn.Module)
    return [tensor.tolist() for tensor in model.state_dict().values()]


def test_the_example_is_under_forty_lines() -> None:
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 40


def test_the_example_trains_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unbroken = run(tmp_path / "unbroken", monkeypatch)
    assert "finished at step 1120" in capsys.readouterr().out

    class Killed(Exception):
        pass

    validations = []
    train_again = tw.fit

    def killed_at_the_fifth_validation(job: tw.Job) -> object:
        from dataclasses import replace

        def validate() -> object:
            validations.append(1)
            if len(validations) == 5:
                raise Killed
            return job.validate()

        return train_again(replace(job, validate=validate))

    with monkeypatch.context() as patch:
        patch.setattr(tw, "fit", killed_at_the_fifth_validation)
        with pytest.raises(Killed):
            run(tmp_path / "broken", monkeypatch)
    resumed = run(tmp_path / "broken", monkeypatch)
    assert weights(resumed) == weights(unbroken)
    assert getattr(resumed["ended"], "kind", None) == "finished"

    again = run(tmp_path / "broken", monkeypatch)
    assert weights(again) == weights(unbroken)
