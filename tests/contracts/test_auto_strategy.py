"""`distributed.strategy: auto` on two processes: what they train with, why, and again when the run
goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command import command
from rank_runs import on_ranks, run_ranks
from trainwright.core.files import read_json

pytestmark = pytest.mark.torch

PLAYS = Path(__file__).resolve().parents[2] / "examples" / "plays" / "plays.txt"
CONTRACT = """\
name: letters
task: generation
data: {kind: tokens, path: plays.txt, vocabulary: characters, windows: packed, separator: "\\n\\n"}
model: {kind: gpt, layers: 8, heads: 2, width: 64, context: 32}
training: {batch_size: 2, num_epochs: 1, checkpointing: {save_every_n_steps: 10}}
metric: {name: perplexity, target: dummy}
"""
LETTERS = 10_000
STRATEGY = "distributed.strategy"
AUTO = on_ranks("auto", 2)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plays.txt").write_text(PLAYS.read_text(encoding="utf-8")[:LETTERS])
    (tmp_path / "small.yaml").write_text(CONTRACT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(run: str) -> dict[str, Any]:
    plan: dict[str, Any] = read_json(Path("runs", run, "plan.json"))
    return plan


def choice_of(run: str) -> dict[str, Any]:
    choices: list[dict[str, Any]] = plan_of(run)["choices"]
    (choice,) = [choice for choice in choices if choice["path"] == STRATEGY]
    return choice


def margin_between(run: str, smaller: str, larger: str) -> str:
    """The setting that leaves a process as much memory as lies between the needs of both."""
    plan = plan_of(run)
    needs = choice_of(run)["measured"]["bytes"]
    usable = (needs[smaller] + needs[larger]) / 2
    return f"training.memory.margin={1 - usable / plan['memory']['device']:.9f}"


@pytest.mark.extended
def test_memory_decides_and_a_resume_keeps_the_choice(project: Path) -> None:
    ample = run_ranks("train", "small.yaml", "--run", "ample", *AUTO)
    assert ample.returncode in (0, 3), ample.stderr
    assert "strategy ddp: the fastest that fits into the memory" in " ".join(ample.stderr.split())
    choice = choice_of("ample")
    assert choice["value"] == plan_of("ample")["contract"]["distributed"]["strategy"] == "ddp"
    assert choice["measured"]["bytes_per_second"] > 0
    scarce = ("--set", margin_between("ample", "fsdp", "single"))
    words = ("train", "small.yaml", "--run", "scarce", *AUTO)
    cut = run_ranks(*words, *scarce, fault="rank0:step.done:12:kill")
    assert cut.returncode not in (0, 3)
    before = choice_of("scarce")
    assert before["value"] == "fsdp"
    assert "a process may use" in before["reason"]
    again = run_ranks(*words, "--resume")
    assert again.returncode in (0, 3), again.stderr
    assert "resumed   at step 10" in again.stderr
    assert choice_of("scarce") == before


@pytest.mark.extended
def test_a_planned_time_has_the_exchange(project: Path) -> None:
    words = ("train", "small.yaml", "--run", "timed", *on_ranks("ddp", 2))
    ran = run_ranks(*words, "--set", "budget.hours=0.02")
    assert ran.returncode in (0, 3), ran.stderr
    measured = plan_of("timed")["budget"]["measured"]
    assert 0 < measured["exchange"] < measured["step"]


def test_a_check_says_that_the_choice_is_open(project: Path) -> None:
    ran = command("check", "small.yaml", *AUTO)
    assert ran.code == 0, ran.err
    assert f"{STRATEGY} = auto (single, ddp or fsdp: measured when a run starts)" in ran.out
