"""The page of numbers shows the contracts in `examples/numbers`, and each trains and predicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainwright as tw
from command import command
from guide import GUIDE, blocks

PAGE = GUIDE / "numbers.md"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "numbers"
CONTRACTS = sorted(EXAMPLES.glob("*.yaml"))
ROWS = {"hour": [8, 3], "temperature": [21.5, None], "weather": ["dry", "snow"]}


def test_the_page_shows_every_example() -> None:
    shown = blocks(PAGE, "yaml")
    assert all(path.read_text(encoding="utf-8") in shown for path in CONTRACTS)


@pytest.mark.extended
@pytest.mark.parametrize("contract", CONTRACTS, ids=[path.stem for path in CONTRACTS])
def test_an_example_trains_and_predicts(contract: Path, tmp_path: Path) -> None:
    is_network = "mlp" in contract.read_text(encoding="utf-8")
    if is_network:
        pytest.importorskip("torch")
    few = "training.num_epochs=1" if is_network else "model.max_trees=12"
    words = ("--set", few, "--runs", str(tmp_path), "--run", "one")
    ran = command("train", str(contract), *words)
    assert ran.code in (0, 3), ran.err
    answer = tw.load(tmp_path / "one").predict({**ROWS, "workday": ["yes", "no"]})
    assert len(answer) == 2
    assert answer["prediction"].null_count() == 0
