"""`init --tune` proposes a search for every family that a contract accepts from end to end."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command import command
from trainwright.contract.reading.read_contract import ContractText, read_contract
from trainwright.contract.sections.model import sections
from trainwright.contract.sections.model.search_spaces import SEARCH_SPACES, propose_space
from trainwright.core.errors import ContractMistake
from trainwright.core.files import read_json
from trainwright.planner.init.propose_search import add_search
from trainwright.run.request import Request

pytest.importorskip("optuna")

SURVEY = Path(__file__).resolve().parents[3] / "examples" / "how-to" / "survey.csv"

TABLE: Mapping[str, Any] = {"path": "rows.csv", "target": "label"}
TOKENS: Mapping[str, Any] = {"kind": "tokens", "path": "texts.txt"}
PAIRS: Mapping[str, Any] = {"kind": "pairs", "path": "captions.csv"}
TEXT_PAIRS: Mapping[str, Any] = {"kind": "text_pairs", "path": "pairs.csv"}
IMAGES: Mapping[str, Any] = {"kind": "images", "path": "images"}

DATA: Mapping[str, Mapping[str, Any]] = {
    "resnet": IMAGES,
    "gpt": TOKENS,
    "causal_lm": TOKENS,
    "dual_encoder": PAIRS,
    "vision_language": {"kind": "captions", "path": "captions.csv"},
    "bi_encoder": TEXT_PAIRS,
    "pretrained": {**TABLE, "columns": {"text": {"kind": "text"}}},
}
"""What a family reads; the others read tables."""

MODEL: Mapping[str, Mapping[str, Any]] = {
    "causal_lm": {"architecture": "base"},
    "pretrained": {"architecture": "base"},
    "imported": {"target": "my_model:build"},
}
"""Keys that a family cannot do without."""


def proposed(kind: str, **model: object) -> ContractText:
    data = DATA.get(kind, TABLE)
    written = {"data": dict(data), "model": {"kind": kind, **MODEL.get(kind, {}), **model}}
    text = ContractText.of(written, Path())
    return ContractText(add_search(text.text, Path(), ()), Path())


def test_every_family_has_a_space() -> None:
    assert set(SEARCH_SPACES) == set(sections())


@pytest.mark.parametrize("kind", sections())
def test_a_search_takes_the_space_up_to_its_ends(kind: str) -> None:
    from trainwright.tune.space import NO_SEARCH, overrides_of, read_space

    contract = proposed(kind)
    _, section, space = read_space(Request(contract))
    assert section.trials == 20
    assert [axis.path for axis in space.axes] == [axis.path for axis in SEARCH_SPACES[kind]]
    for end in (0, -1):
        params = {axis.path: axis.extremes[end] for axis in space.axes}
        read_contract(contract, (NO_SEARCH, *overrides_of(params)))


def test_an_adapter_is_searched_at_rates_of_its_own() -> None:
    adapter = {"kind": "lora", "rank": 4}
    (axis,) = propose_space(read_contract(proposed("causal_lm", adapter=adapter)).contract.model)
    assert axis.values != SEARCH_SPACES["causal_lm"][0].values


def test_a_selection_that_was_asked_for_is_refused() -> None:
    written = ContractText.of({"data": dict(TABLE), "model": {"kind": "auto"}}, Path())
    with pytest.raises(ContractMistake, match="selection among families"):
        add_search(written.text, Path(), ["model.kind=auto"])
    searched = add_search(
        "data: {path: rows.csv, target: label}\nmodel: {kind: auto}\n", Path(), ()
    )
    assert "kind: boosting" in searched


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["boosting", "linear"])
def test_a_proposed_search_runs(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SURVEY, "survey.csv")
    family = ("--set", f"model.kind={kind}")
    ran = command("init", "survey.csv", "--target", "renews", "--tune", *family)
    assert ran.code == 0, ran.err
    few: tuple[str, ...] = ("--set", "tune.trials=4", "--set", "metric.resamples=100")
    if kind == "boosting":
        few = (*few, "--set", "model.max_trees=20")
    ran = command("tune", "contract.yaml", "--study", "one", *few)
    assert ran.code in (0, 3), ran.err
    tried = [read_json(path)["params"] for path in Path("runs/one/trials").glob("*.asked.json")]
    paths = {axis.path for axis in SEARCH_SPACES[kind]}
    assert sorted(map(len, tried)) == [0, *[len(paths)] * 3]
    assert all(set(params) == paths for params in tried if params)
