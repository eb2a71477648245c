"""No error of a contract or of `--set` repeats what looks like a secret."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake, DataMistake, Place, Problem

SECRET = "hunter2"
RANDOM = "k3v9x2m8q1w7z4t6" * 2
CONTRACT = "data: {path: rows.csv, target: y}\nmodel: {kind: boosting}\n"


@pytest.mark.parametrize(
    "override",
    [
        "name=password=hunter2",
        "name=token: hunter2",
        "name={password: hunter2}",
        "name={password: my hunter2}",
        "training.batch_size=password=hunter2",
        "model.kind=password=hunter2",
        "metric.name=api_key=hunter2",
        "seed=Bearer hunter2hunter2",
        "seed='secret=hunter2'",
        "task=s3://hunter2:hunter2@bucket/x",
        'data.columns."password=hunter2".kind=foo',
        f"seed={RANDOM}",
    ],
)
def test_a_secret_of_an_override_is_not_repeated(tmp_path: Path, override: str) -> None:
    file = tmp_path / "contract.yaml"
    file.write_text(CONTRACT)
    with pytest.raises(ContractMistake) as caught:
        read_contract(file, [override])
    shown = str(caught.value), str([asdict(problem) for problem in caught.value.problems])
    assert all("***" in text for text in shown)
    assert not any(SECRET in text or RANDOM in text for text in shown)


def test_a_secret_of_the_contract_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    file.write_text(CONTRACT + "seed: password=hunter2\nname: {token: hunter2}\n")
    with pytest.raises(ContractMistake) as caught:
        read_contract(file)
    seed, name = caught.value.problems
    assert seed.found == "password=***"
    assert "hunter2" not in str(caught.value)
    assert name.found == "{token: ***}"


def test_an_error_of_the_data_hides_a_secret_and_shows_names_and_hashes() -> None:
    found = f"the columns token, {RANDOM} and password='a b', not 1"
    mistake = DataMistake(Problem("odd names", found=found, place=Place("rows.csv")))
    assert mistake.problems[0].found == f"the columns token, {RANDOM} and password=***, not 1"
