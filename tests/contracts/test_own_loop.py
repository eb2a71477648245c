"""The parts in somebody's own loop: each script of the guide does what it says."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "script"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(part: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(SCRIPTS / f"own_{part}.py"))
    return capsys.readouterr().out


def test_the_feed_can_be_moved_anywhere(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran("feed", capsys)
    assert "epoch 9, 10000 samples" in said
    assert "the same rows: True" in said


def test_the_guard_names_the_bad_row(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran("guard", capsys).splitlines()
    assert said == ["left out, with row 123 in it: True"] * 2 + ["weights are finite: True"]


def test_every_step_is_among_the_signals(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran("signals", capsys)
    first, last = re.fullmatch(r"200 steps; loss (.*) to (.*)\n", said).groups()
    assert float(last) < float(first) / 2


def test_a_loop_that_goes_on_ends_with_the_same_weights(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, whole = ran("checkpoints", capsys).split(";")
    ended, same = ran("checkpoints", capsys).split(";")
    shutil.rmtree(here / "own_loop_checkpoints" / "step-0000000060")
    again, resumed = ran("checkpoints", capsys).split(";")
    assert [began[-2:], ended[-2:], again[-2:]] == [" 0", "60", "40"]
    assert whole == same == resumed


def test_number_format_and_kernels_can_be_chosen_by_a_measurement(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = ran("precision", capsys).splitlines()
    assert first.endswith("they agree: True")
    assert last.endswith("weights are torch.float32")
    assert float(last.split()[1].strip(";")) < float(first.split()[3].strip(","))
