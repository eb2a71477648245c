"""The page of models shows the contracts in `examples/tables`, and each trains and predicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainwright as tw
from command import command
from guide import GUIDE, blocks
from trainwright.contract.sections.model import kinds_with, sections

PAGE = GUIDE / "models.md"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tables"
CONTRACTS = sorted(EXAMPLES.glob("*.yaml"))


def test_the_page_shows_every_example() -> None:
    shown = blocks(PAGE, "yaml")
    assert sorted(shown) == sorted(path.read_text(encoding="utf-8") for path in CONTRACTS)


def test_the_page_lists_every_family() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")][1:]
    assert sorted(kind for row in rows for kind in row.split("`")[1::2]) == sorted(
        kinds_with(lambda _: True)
    )


def is_network(contract: Path) -> bool:
    return sections()[contract.stem].traits.trained_by == "loop"


def marked(contract: Path) -> object:
    marks = [pytest.mark.torch] if is_network(contract) else []
    return pytest.param(contract, marks=marks, id=contract.stem)


@pytest.mark.extended
@pytest.mark.parametrize("contract", [marked(contract) for contract in CONTRACTS])
def test_an_example_trains_and_predicts(contract: Path, tmp_path: Path) -> None:
    assert contract.stem in sections()
    keys = ("max_trees", "trees", "neighbours")
    few = [f"model.{key}=12" for key in keys if key in keys_of(contract)]
    if is_network(contract):
        pytest.importorskip("torch")
        few = ["training.num_epochs=1"]
    words = ("--set", few[0], "--runs", str(tmp_path), "--run", "one")
    ran = command("train", str(contract), *words)
    assert ran.code in (0, 3), ran.err
    rows = {"hours": [1.0, 9.0], "income": [3000, None], "region": ["north", "nowhere"]}
    answer = tw.load(tmp_path / "one").predict(rows)
    assert answer["probability_yes"].is_between(0, 1).all()


def keys_of(contract: Path) -> set[str]:
    return set(sections()[contract.stem].model_fields)
