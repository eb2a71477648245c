"""What a run has cost, where an hour of the machine has a price."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import CONTRACT, Ran, command, project_in
from trainwright.core.files import read_json


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT)


def train(*settings: str) -> Ran:
    words = [word for setting in ("metric.resamples=100", *settings) for word in ("--set", setting)]
    return command("train", "small.yaml", "--run", "one", *words)


def test_the_price_stands_beside_the_time(project: Path) -> None:
    ran = train("budget.price_per_hour=3600")
    record = read_json(Path("runs/one/record.json"))
    assert record["price"] == pytest.approx(record["seconds"])
    (shown,) = re.findall(r"^time .* · price ([0-9.,]+)$", ran.err, re.M)
    # Two digits are shown: half of the last one may be missing.
    assert float(shown) == pytest.approx(record["price"], abs=0.0051, rel=0.05)
    page = Path("runs/one/report.html").read_text()
    assert f"{shown} (3600 an hour)" in page


def test_without_a_price_of_an_hour_there_is_none(project: Path) -> None:
    ran = train()
    assert "price" not in ran.err
    assert "price" not in read_json(Path("runs/one/record.json"))
    assert "an hour)" not in Path("runs/one/report.html").read_text()
