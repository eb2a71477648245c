"""Every real data set loads from the contract that `init` writes for it, without an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import command, inside
from real import FOLDER
from real_data import real_data
from trainwright.contract.reading.read_contract import read_contract
from trainwright.data.dispatch import read_data

PROPOSED = {
    "adult": ("adult_train.csv", "--target", "income"),
    "airline-passengers": ("airline-passengers.csv", "--target", "Passengers"),
    "alpaca-en-demo": ("alpaca_en_demo.jsonl", "--text", "output"),
    "banking77": ("train.csv", "--target", "category"),
    "bike-sharing": ("hour.csv", "--target", "cnt"),
    "california-housing": ("housing.csv", "--target", "median_house_value"),
    "elec2": ("elec.csv", "--target", "class"),
    "emoji-captions": ("captions.csv", "--target", "group"),
    "etth1": ("ETTh1.csv", "--target", "OT"),
    "fashion-mnist": ("",),
    "insteval-ratings": ("InstEval.parquet", "--target", "y"),
    "parkinsons-telemonitoring": ("parkinsons_updrs.csv", "--target", "total_UPDRS"),
    "penguins": ("penguins.csv", "--target", "species"),
    "sms-spam": ("SMSSpamCollection.tsv", "--target", "column_1"),
    "telco-churn": ("Telco-Customer-Churn.csv", "--target", "Churn"),
    "tinyshakespeare": ("input.txt",),
    "toolcall-chat-demo": ("glaive_toolcall_en_demo.jsonl", "--text", "conversations"),
    "titanic": ("titanic_train.csv", "--target", "Survived"),
}
"""The arguments of `init` behind the folder."""

ROWS = {
    "adult": 32_561,
    "banking77": 10_003,
    "sms-spam": 5_574,
    "insteval-ratings": 73_421,
    "fashion-mnist": 70_000,
    "tinyshakespeare": 1_115_394,
    "emoji-captions": 3_633,
}
"""As their notes count them."""


def test_no_data_set_is_forgotten() -> None:
    if not FOLDER.is_dir():
        pytest.skip("the real data sets are not beside the project")
    there = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert there <= set(PROPOSED)


@pytest.mark.extended
@pytest.mark.real_data
@pytest.mark.parametrize("name", list(PROPOSED))
def test_it_loads(name: str, tmp_path: Path) -> None:
    file, *words = PROPOSED[name]
    with inside(tmp_path):
        ran = command("init", str(real_data(name) / file), *words)
    assert ran.code == 0, ran.err
    read = read_contract(tmp_path / "contract.yaml")
    raw = read_data(read.contract.data, read.source.folder)
    assert raw.facts.rows == ROWS.get(name, raw.facts.rows)
    assert raw.facts.rows > 100
