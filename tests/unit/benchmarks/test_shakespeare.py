"""The comparison with nanoGPT's recipe: its model, its losses, and what is made of two sides."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nanogpt  # noqa: E402
import shakespeare  # noqa: E402
from made_data import make_text  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_model_has_the_published_size() -> None:
    model = nanogpt.make_model(65)
    count = sum(parameter.numel() for parameter in model.parameters())
    # "number of parameters: 0.80M" does not count the places.
    assert round((count - nanogpt.CONTEXT * nanogpt.WIDTH) / 1e6, 2) == 0.80


def test_the_rate_rises_and_falls_as_published() -> None:
    rates = [nanogpt.learning_rate(step) for step in (0, 99, 100, 1050, 2000)]
    assert rates == pytest.approx([1e-3 / 101, 100e-3 / 101, 1e-3, 5.5e-4, 1e-4])


def test_the_exact_loss_is_that_of_windows_side_by_side(tmp_path: Path) -> None:
    text = np.random.default_rng(0).integers(0, 9, 64 * 30 + 17).astype(np.uint16)
    text.tofile(tmp_path / "val.bin")
    model = nanogpt.make_model(9)
    losses = []
    for first in range(0, 64 * 30, 64):
        window = torch.from_numpy(text[first : first + 65].astype(np.int64))[None]
        losses.append(float(model(window[:, :-1], window[:, 1:])[1].detach()))
    assert nanogpt.exact_loss(model, tmp_path / "val.bin") == pytest.approx(np.mean(losses))


@pytest.mark.extended
def test_the_recipe_learns_and_keeps_its_best_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_text(tmp_path / "text.txt")
    size = shakespeare.write_splits(tmp_path / "text.txt", tmp_path)
    for name, value in {"EVERY": 4, "ESTIMATES": 2, "WARMUP": 4}.items():
        monkeypatch.setattr(nanogpt, name, value)
    nanogpt.train(tmp_path / "train.bin", tmp_path / "val.bin", tmp_path, size, steps=8)
    estimates = json.loads((tmp_path / "estimates.json").read_text())
    assert [step for step, _, _ in estimates] == [0, 4, 8]
    assert estimates[-1][2] < estimates[0][2] - 0.1
    model = nanogpt.make_model(size)
    model.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["model"])
    exact = nanogpt.exact_loss(model, tmp_path / "val.bin")
    assert exact == pytest.approx(estimates[-1][2], abs=0.1)


@pytest.mark.slow
def test_our_side_is_a_whole_process(tmp_path: Path) -> None:
    make_text(tmp_path / "text.txt")
    small = ["model.layers=1", "model.width=32", "training.stop.max_tokens=4096"]
    done = shakespeare.run_ours(
        tmp_path / "text.txt", tmp_path, 1, [*small, "metric.resamples=100"]
    )
    assert done.took.wall_seconds > 0
    assert done.took.cpu_seconds > 0
    assert 0 < done.loss < np.log(40)
    assert done.told.startswith("validation part ")


def test_the_ratio_is_the_median_over_the_rounds() -> None:
    rows = [
        {"side": side, "round": number, "wall_seconds": seconds, "cpu_seconds": 2 * seconds}
        | {"loss": 1.9, "told": "so"}
        for number, pair in enumerate([(10.0, 2.0), (10.0, 4.0), (10.0, 9.0)], start=1)
        for side, seconds in zip(("nanogpt", "ours"), pair, strict=True)
    ]
    assert shakespeare.ratio_of(rows, "wall_seconds") == 0.4
    assert "0.40 in wall time" in shakespeare.show(rows)
    assert "at a loss of at most 1.88, missed)." in shakespeare.show(rows)
    better = [{**row, "loss": 1.8} for row in rows]
    assert "at a loss of at most 1.88)." in shakespeare.show(better)
