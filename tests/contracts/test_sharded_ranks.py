"""Ranks that hold shards of a model train what one process trains, to rounding; their checkpoints
are read by any number of ranks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from command import command, inside
from golden.golden_runs import CONTRACTS, write_data
from rank_runs import on_ranks, run_ranks, weights

pytestmark = pytest.mark.torch

PLAYS = Path(__file__).resolve().parents[2] / "examples" / "plays" / "plays.txt"
CONTRACT = """\
name: letters
task: generation
data: {kind: tokens, path: plays.txt, vocabulary: characters, windows: packed, separator: "\\n\\n"}
model: {kind: gpt, layers: 2, heads: 2, width: 32, context: 32, dropout: 0.1}
training: {batch_size: 16, num_epochs: 1, checkpointing: {save_every_n_steps: 10}}
metric: {name: perplexity, target: dummy}
"""
LETTERS = 30_000
ANY_BITS = "resume.numerics_changed=record"
EVERYWHERE = ("--set", "compute.threads=1", "--set", ANY_BITS)


def steps_of(micro_batches: int) -> tuple[str, str]:
    return ("--set", f"training.gradient_accumulation_steps={micro_batches}")


def difference(one: str, other: str, file: str = "network.safetensors") -> float:
    bundles = (Path("runs", run, "bundle", file) for run in (one, other))
    left, right = map(load_file, bundles)
    return max(float((left[name] - right[name]).abs().max()) for name in left)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "plays.txt").write_text(PLAYS.read_text(encoding="utf-8")[:LETTERS])
    (tmp_path / "small.yaml").write_text(CONTRACT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.extended
def test_shards_of_which_a_rank_is_killed_train_what_one_process_trains(project: Path) -> None:
    alone = ("--set", "training.gradient_accumulation_steps=2", *EVERYWHERE)
    assert command("train", "small.yaml", "--run", "alone", *alone).code in (0, 3)
    words = (
        "train",
        "small.yaml",
        "--run",
        "two",
        *on_ranks("fsdp", 2, ANY_BITS),
        "--restart",
        "1",
    )
    ran = run_ranks(*words, fault="rank1:step.done:19:kill")
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step" in ran.stderr
    assert difference("two", "alone") < 1e-6
    shards = Path("runs/two/checkpoints").glob("*/optimizer.00001-of-00002.safetensors")
    assert next(shards, None), "each rank writes its own"


@pytest.mark.extended
def test_two_replicas_of_shards_of_which_a_rank_is_killed(project: Path) -> None:
    alone = ("--set", "training.gradient_accumulation_steps=4", *EVERYWHERE)
    assert command("train", "small.yaml", "--run", "alone", *alone).code in (0, 3)
    replicas = ("distributed.replicas=2", "distributed.reshard_after_forward=false", ANY_BITS)
    four = ("train", "small.yaml", "--run", "four", *on_ranks("fsdp", 4, *replicas))
    ran = run_ranks(*four, "--restart", "1", fault="rank3:step.done:14:kill")
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step" in ran.stderr
    assert difference("four", "alone") < 1e-6
    written = {path.name for path in Path("runs/four/checkpoints").glob("*/optimizer.0*")}
    assert len(written) == 2, "one replica writes its shards"


@pytest.mark.extended
def test_a_killed_rank_changes_no_bit(project: Path) -> None:
    for run, fault in (("whole", ""), ("cut", "rank1:ckpt.manifest:3:kill")):
        ran = run_ranks(
            "train",
            "small.yaml",
            "--run",
            run,
            *on_ranks("fsdp", 2, ANY_BITS),
            "--restart",
            "3",
            fault=fault,
        )
        assert ran.returncode in (0, 3), ran.stderr
    assert weights("cut") == weights("whole")


@pytest.mark.extended
@pytest.mark.parametrize("then", [(3, "fsdp"), (2, "ddp"), (1, "single")])
def test_other_ranks_go_on_from_shards(project: Path, then: tuple[int, str]) -> None:
    """Micro-batches of a step are divided unevenly among three."""
    two = ("train", "small.yaml", "--run", "two", *on_ranks("fsdp", 2, ANY_BITS), *steps_of(3))
    ran = run_ranks(*two, fault="rank0:step.done:7:term")
    assert ran.returncode == 75, ran.stderr
    shutil.copytree("runs/two", "runs/other")
    assert run_ranks(*two, "--resume").returncode in (0, 3)
    number, strategy = then
    other = (
        "train",
        "small.yaml",
        "--run",
        "other",
        "--resume",
        *on_ranks(strategy, number, ANY_BITS),
    )
    ran = run_ranks(*other, *steps_of(6 // number))
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step" in ran.stderr
    assert difference("two", "other") < 1e-6


@pytest.mark.extended
def test_averaged_weights_in_bf16_with_few_micro_batches(project: Path) -> None:
    """In a step of fewer micro-batches than ranks, one rank makes a pass that does not count."""
    settings = ("training.average={kind: ema, decay: 0.9}", "training.mixed_precision=bf16")
    words = [word for one in settings for word in ("--set", one)]
    alone = run_ranks("train", "small.yaml", "--run", "alone", *EVERYWHERE, *words, *steps_of(3))
    assert alone.returncode in (0, 3), alone.stderr
    ran = run_ranks("train", "small.yaml", "--run", "three", *on_ranks("fsdp", 3, ANY_BITS), *words)
    assert ran.returncode in (0, 3), ran.stderr
    assert difference("three", "alone") < 1e-4


@pytest.mark.extended
def test_an_adapter_of_an_encoder_in_shards(tmp_path: Path) -> None:
    write_data(tmp_path)
    settings = ("model.adapter={kind: lora, rank: 2, dropout: 0.1}", "training.batch_size=32")
    with inside(tmp_path):
        Path("contract.yaml").write_text(CONTRACTS["encoder"])
        for run, ranks in (("alone", on_ranks("single", 1)), ("two", on_ranks("fsdp", 2))):
            words = [word for one in settings for word in ("--set", one)]
            ran = run_ranks("train", "contract.yaml", "--run", run, *ranks, *words)
            assert ran.returncode in (0, 3), ran.stderr
        assert difference("two", "alone", "adapter.safetensors") < 1e-6


def test_replicas_are_groups_of_as_many_ranks(project: Path) -> None:
    for strategy, number, why in (("fsdp", 3, "differ in size"), ("ddp", 4, "replicas anyway")):
        words = on_ranks(strategy, number, "distributed.replicas=2")
        ran = command("train", "small.yaml", *words)
        assert ran.code == 2
        assert why in ran.err, ran.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "setting",
    ["training.optimizer.name=muon", "training.checkpointing.asynchronous=true"],
)
def test_what_shards_cannot_do_is_refused(project: Path, setting: str) -> None:
    ran = command("train", "small.yaml", *on_ranks("fsdp", 2, ANY_BITS), "--set", setting)
    assert ran.code == 2
    assert "does not go with shards of a model" in ran.err
    assert not Path("runs").exists()
