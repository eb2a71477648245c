"""Every contract of `examples/` trains in a test: here, or in the test that is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command import command
from trainwright.core.files import read_json

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

TRAINED_BY = {
    "chats/contract.yaml": ("contracts/test_language_guide.py", "chats.md"),
    "costs/contract.yaml": ("contracts/test_error_costs.py", '"costs"'),
    "distillation/student.yaml": ("contracts/test_teacher.py", "student.yaml"),
    "distillation/teacher.yaml": ("contracts/test_teacher.py", "teacher.yaml"),
    "fashion/contract.yaml": ("contracts/test_images_and_texts.py", "fashion"),
    "images/contract.yaml": ("contracts/test_text_guide.py", '"images"'),
    "income/contract.yaml": ("contracts/test_real_data.py", "income"),
    "numbers/counts.yaml": ("contracts/test_numbers_page.py", '"numbers"'),
    "numbers/ordered.yaml": ("contracts/test_numbers_page.py", '"numbers"'),
    "numbers/quantiles.yaml": ("contracts/test_numbers_page.py", '"numbers"'),
    "pairs/contract.yaml": ("contracts/test_pairs.py", '"pairs"'),
    "plays/contract.yaml": ("contracts/test_language_guide.py", "language-models.md"),
    "preferences/contract.yaml": ("contracts/test_language_guide.py", "preferences.md"),
    "ranking/contract.yaml": ("contracts/test_ranking.py", '"ranking"'),
    "refit/contract.yaml": ("unit/run/test_refit.py", '"refit"'),
    "selection/contract.yaml": ("contracts/test_selection_guide.py", '"selection"'),
    "series/contract.yaml": ("contracts/test_forecasting_page.py", "contract.yaml"),
    "series/intervals.yaml": ("contracts/test_forecasting_page.py", "intervals.yaml"),
    "shakespeare/contract.yaml": ("contracts/test_images_and_texts.py", "shakespeare"),
    "shakespeare/divided.yaml": ("contracts/test_tensor_parallel.py", "divided.yaml"),
    **{
        f"tables/{kind}.yaml": ("contracts/test_models_page.py", '"tables"')
        for kind in ("boosting", "catboost", "forest", "ft_transformer", "neighbours", "xgboost")
    },
    **{
        f"targets/{name}.yaml": ("contracts/test_several_page.py", '"targets"')
        for name in ("numbers", "labels", "lists")
    },
    "text_pairs/contract.yaml": ("contracts/test_text_pairs.py", "text_pairs"),
    "texts/contract.yaml": ("contracts/test_text_guide.py", '"texts"'),
    "weights/contract.yaml": ("contracts/test_row_weights.py", '"weights"'),
}
"""The test that trains a contract, or the page with its rows whose commands it runs, and the words
by which it names it."""

HERE = ("own/contract.yaml",)


def test_no_example_is_left_out() -> None:
    files = [one for one in EXAMPLES.rglob("*.yaml") if "\nmodel:" in one.read_text("utf-8")]
    there = {path.relative_to(EXAMPLES).as_posix() for path in files}
    assert there == {*TRAINED_BY, *HERE}, "name the test that trains it in TRAINED_BY"
    for name, (test, words) in TRAINED_BY.items():
        assert words in (ROOT / "tests" / test).read_text(encoding="utf-8"), name


@pytest.mark.torch
@pytest.mark.parametrize("name", HERE)
def test_an_example_trains_a_few_steps(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for folder in (Path(name).parent, "how-to"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    few = ("--set", "training.stop.max_steps=3", "--set", "metric.resamples=100")
    words = ("--runs", tmp_path / "runs", "--run", "few", "--allow-code", *few)
    ran = command("train", tmp_path / name, *words)
    assert ran.code in (0, 3), ran.err
    metrics = read_json(tmp_path / "runs" / "few" / "evaluation.json")["evaluation"]["metrics"]
    assert metrics["roc_auc"]["value"] is not None
