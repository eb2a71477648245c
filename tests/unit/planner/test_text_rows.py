"""A text that is too short for the windows of its model is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from planned_tables import CPU
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import ContractMistake
from trainwright.data.text.prepare_text import read_tokens
from trainwright.planner.plan import Plan, plan

CONTRACT = """
data: {kind: tokens, path: texts, windows: WINDOWS, validation: 0.33, test: 0.33}
model: {kind: gpt, layers: 1, heads: 2, width: 8, context: CONTEXT}
"""


def planned(folder: Path, windows: str, context: int, documents: int = 3) -> Plan:
    """For texts of 100 characters, a third of them for each part."""
    (folder / "texts").mkdir(exist_ok=True)
    for at in range(documents):
        (folder / "texts" / f"{at}.txt").write_text("abcde" * 20)
    text = CONTRACT.replace("WINDOWS", windows).replace("CONTEXT", str(context))
    (folder / "c.yaml").write_text(text)
    document = read_contract(folder / "c.yaml", [])
    section = document.contract.data
    assert isinstance(section, TokenData)
    return plan(document, read_tokens(section, folder).facts, CPU)


@pytest.mark.parametrize(
    ("windows", "context", "said"),
    [
        ("across", 51, "the training text is shorter than two windows"),
        ("packed", 100, "the training documents fill fewer than two windows"),
        ("padded", 100, "the training documents fill fewer than two rows"),
    ],
)
def test_a_text_that_is_too_short_is_told_with_its_place(
    windows: str, context: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ContractMistake) as caught:
        planned(tmp_path, windows, context)
    (problem,) = caught.value.problems
    assert problem.message == said
    assert (problem.path, problem.place.line) == ("model.context", 3)
    assert "101 tokens" in problem.found


@pytest.mark.parametrize(("windows", "rows"), [("across", 1), ("packed", 2), ("padded", 2)])
def test_two_windows_or_rows_are_enough(windows: str, rows: int, tmp_path: Path) -> None:
    assert planned(tmp_path, windows, 50).estimate.train_rows == rows
