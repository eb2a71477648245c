"""Free text is a feature of a proposed contract, whatever stands beside it; names are none."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.quality.columns.useless_columns import identifier
from trainwright.data.quality.examined_data import examine
from trainwright.planner.init.first_contract import propose_contract

WORDS = ["card", "money", "late", "lost", "transfer", "fee", "rate", "app", "pin", "bank"]
ROWS = 300
TEXTS = [" ".join(WORDS[at * step % 10] for step in range(1, 9)) + f" {at}" for at in range(ROWS)]
NAMES = [f"Dr. {WORDS[at % 10].title()} van der Berg-{at} Smith" for at in range(ROWS)]
ADDRESSES = [f"{at} {WORDS[at % 10].title()} Road, Flat {at % 7}, London" for at in range(ROWS)]
LABELS = [f"c{at % 3}" for at in range(ROWS)]


def proposed(folder: Path, columns: dict[str, list[str]], numbers: int) -> tuple[Contract, str]:
    others = {
        f"x{at}": [(row * (at + 3)) % 17 + 0.5 for row in range(ROWS)] for at in range(numbers)
    }
    pl.DataFrame({**columns, **others, "y": LABELS}).write_csv(folder / "rows.csv")
    text = propose_contract(str(folder / "rows.csv"), "y", folder)
    (folder / "contract.yaml").write_text(text)
    return read_contract(folder / "contract.yaml").contract, text


@pytest.mark.parametrize(("numbers", "model"), [(0, "linear"), (1, "linear"), (5, "boosting")])
def test_free_text_is_a_feature_beside_any_number_of_columns(
    tmp_path: Path, numbers: int, model: str
) -> None:
    contract, _ = proposed(tmp_path, {"note": TEXTS}, numbers)
    assert isinstance(contract.data, TableData)
    assert contract.data.columns["note"].kind == "text"
    assert contract.data.exclude == ()
    assert contract.model.kind == model


def test_a_table_gets_trees_or_a_linear_model(tmp_path: Path) -> None:
    contract, _ = proposed(tmp_path, {}, 1)
    assert contract.model.kind == "auto"


@pytest.mark.parametrize("values", [NAMES, ADDRESSES], ids=["names", "addresses"])
def test_names_and_addresses_are_excluded_and_can_be_used(
    tmp_path: Path, values: list[str]
) -> None:
    contract, text = proposed(tmp_path, {"who: is": values}, 2)
    assert isinstance(contract.data, TableData)
    assert contract.data.exclude == ("who: is",)
    (line,) = (one for one in text.splitlines() if "free text" in one)
    assert line.endswith('columns: {"who: is": {kind: text}} to use it')


def test_the_advice_on_free_text_names_its_kind() -> None:
    frame = pl.DataFrame({"note": TEXTS, "x": range(ROWS), "y": LABELS})
    (finding,) = (one for one in identifier(examine(frame, "y")) if one.columns == ("note",))
    assert "data.columns.note.kind: text" in finding.fix
