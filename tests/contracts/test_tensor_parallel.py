"""Processes that divide a decoder among them train what one process trains."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from command import command, project_in
from deadlines import within
from rank_runs import run_ranks
from real_data import real_data
from trainwright.core.files import read_json

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

from torch import distributed, nn  # noqa: E402

from forked_ranks import start_ranks  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.core.errors import Mistake, PeerLost  # noqa: E402
from trainwright.data.loading.batch import Batch, element_targets  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.distributed.strategy import SingleProcess, Strategy  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.losses import LossSum, Supervised  # noqa: E402
from trainwright.testing.fake_strategy import NO_MEMORY  # noqa: E402
from trainwright.tracking.events import read_number  # noqa: E402

CONTRACT = """\
name: small
task: generation
data: {kind: tokens, path: notes.txt, vocabulary: characters, validation: 0.1, test: 0.1}
model: {kind: gpt, layers: 2, heads: 4, width: 16, context: 8}
training:
  batch_size: 8
  mixed_precision: fp32
  stop: {max_steps: 24}
  validate_every_n_steps: 12
metric: {name: nats_per_token, target: 3}
"""
EXAMPLES = Path(__file__).parents[2] / "examples"
NOTES = "to divide a model is to share its work and not its rows; " * 60
ONE_THREAD = ("--set", "compute.threads=1")
DDP = ("--set", "distributed.strategy=ddp", *ONE_THREAD)
TWO = (*DDP, "--set", "distributed.num_gpus=2", "--set", "distributed.tensor=2")
DECODERS = {
    "gpt2": {"positions": "learned", "bias": "all", "tied": True},
    "llama": {"norm": "rms", "feed_forward": "swiglu", "tied": False, "kv_heads": 2},
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "notes.txt").write_text(NOTES)
    yield from project_in(tmp_path, CONTRACT)


def weights(run: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(Path("runs", run, "bundle", "network.safetensors"))


def distance(run: str, other: str) -> float:
    first, second = weights(run), weights(other)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.extended
def test_two_processes_that_divide_a_model_train_that_of_one(project: Path) -> None:
    """One of them is killed on the way."""
    assert command("train", "small.yaml", "--run", "alone", *ONE_THREAD).code in (0, 3)
    words = ("train", "small.yaml", "--run", "two", *TWO, "--restart", "1")
    ran = run_ranks(*words, fault="rank1:step.done:15:kill")
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step 12" in ran.stderr
    assert distance("two", "alone") < 1e-5


@pytest.mark.extended
def test_a_divided_run_goes_on_in_one_process(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "alone", *ONE_THREAD).code in (0, 3)
    ran = run_ranks("train", "small.yaml", "--run", "whole", *TWO, fault="rank1:step.done:15:kill")
    assert ran.returncode == 16, ran.stderr
    again = ("train", "small.yaml", "--run", "whole", "--resume", *ONE_THREAD)
    refused = run_ranks(*again)
    assert refused.returncode == 2
    assert "with the same number of ranks, 2" in refused.stderr
    ran = run_ranks(*again, "--set", "resume.numerics_changed=record")
    assert ran.returncode in (0, 3), ran.stderr
    assert distance("whole", "alone") < 1e-5


@pytest.mark.extended
@pytest.mark.parametrize("settings", [["model.dropout=0.2"], ["training.mixed_precision=bf16"]])
def test_data_and_tensor_ranks(project: Path, settings: list[str]) -> None:
    """Two of each. The positions that are dropped are others than those of one process."""
    words = [word for setting in settings for word in ("--set", setting)]
    alone = command("train", "small.yaml", "--run", "alone", *ONE_THREAD, *words)
    assert alone.code in (0, 3), alone.err
    four = ("distributed.num_gpus=4", "distributed.tensor=2", "training.batch_size=4")
    words += [word for setting in four for word in ("--set", setting)]
    ran = run_ranks("train", "small.yaml", "--run", "four", *DDP, *words)
    assert ran.returncode in (0, 3), ran.stderr
    first, second = (
        read_json(Path("runs", run, "evaluation.json"))["evaluation"]["metrics"]["nats_per_token"]
        for run in ("alone", "four")
    )
    assert second["value"] == pytest.approx(first["value"], rel=0.02)


@pytest.mark.extended
def test_a_pipeline_of_two_stages_trains_the_model_of_one_process(project: Path) -> None:
    """The rank of the second stage is killed on the way."""
    untied = ("--set", "model.tied=false")
    assert command("train", "small.yaml", "--run", "alone", *ONE_THREAD, *untied).code in (0, 3)
    settings = ("distributed.num_gpus=2", "distributed.pipeline=2", "training.batch_size=2")
    settings += ("training.gradient_accumulation_steps=4",)
    stages = [word for setting in settings for word in ("--set", setting)]
    words = ("train", "small.yaml", "--run", "two", *DDP, *untied, *stages, "--restart", "1")
    ran = run_ranks(*words, fault="rank1:step.done:15:kill")
    assert ran.returncode in (0, 3), ran.stderr
    assert "resumed   at step 12" in ran.stderr
    assert distance("two", "alone") < 1e-5


@pytest.mark.extended
@pytest.mark.real_data
def test_the_example_of_three_dimensions_has_the_losses_of_one_process(tmp_path: Path) -> None:
    example = EXAMPLES / "shakespeare" / "divided.yaml"
    text = f"data.path={real_data('tinyshakespeare')}/input.txt"
    few = ("training.stop.max_steps=10", "data.validation=0.01", "data.test=0.01", text)
    words = ["train", str(example), "--runs", str(tmp_path), *ONE_THREAD]
    words += [word for setting in few for word in ("--set", setting)]
    one = ("distributed={strategy: single}", "training.gradient_accumulation_steps=8")
    alone = [word for setting in one for word in ("--set", setting)]
    losses: list[list[float]] = []
    for run, settings in (("eight", []), ("alone", alone)):
        ran = run_ranks(*words, "--run", run, *settings)
        assert ran.returncode in (0, 3), ran.stderr
        lines = (tmp_path / run / "signals.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) == 10
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.extended
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    ("ranks", "tensor", "pipeline"),
    [(2, 2, 1), (4, 2, 1), (4, 4, 1), (2, 1, 2), (4, 1, 2), (4, 2, 2)],
)
def test_steps_of_divided_decoders(
    decoder: str, ranks: int, tensor: int, pipeline: int, tmp_path: Path
) -> None:
    """In fp64, with clipping, short windows and a short step at the end of each epoch."""
    if decoder == "llama" and tensor == 4:
        pytest.skip("its heads of keys are two")
    settings = DECODERS[decoder] if pipeline == 1 else {**DECODERS[decoder], "tied": False}
    start_ranks(_step, ranks, (ranks, tensor, pipeline, settings, str(tmp_path)))
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(ranks)]
    assert found == [found[0]] * ranks
    for ours, alone in found[0]:
        assert ours == pytest.approx(alone, rel=1e-12)


@pytest.mark.extended
def test_memory_that_runs_out_on_one_rank_ends_all_of_them(tmp_path: Path) -> None:
    start_ranks(_run_out, 2, (2, str(tmp_path)))
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in range(2)] == ["peer", "memory"]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (["model={kind: causal_lm, architecture: x}"], "distributed.tensor"),
        (["distributed.num_gpus=3"], "distributed.num_gpus"),
        (["model.heads=1"], "model.heads"),
        (["model.context=9"], "model.context"),
        (["training.optimizer={name: muon}"], "training.optimizer.name"),
        (["training.average={kind: ema}"], "training.average"),
        (["training.freeze={embedding: always}"], "training.freeze"),
        (["training.memory.head_loss=fused"], "training.memory.head_loss"),
        (["training.compute.compile=on"], "training.compute.compile"),
        (["distributed.pipeline=2", "distributed.num_gpus=4"], "model.tied"),
        (["distributed.pipeline=3", "distributed.num_gpus=6"], "distributed.pipeline"),
        (
            ["distributed.pipeline=2", "training.checkpointing.asynchronous=true"],
            "training.checkpointing.asynchronous",
        ),
    ],
)
def test_what_divided_models_cannot_do_is_refused(
    project: Path, settings: list[str], path: str
) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "small.yaml", *TWO, *words)
    assert ran.code == 2
    assert path in ran.err
    assert not Path("runs").exists()


def _join(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=within(120)),
    )


def _network(settings: dict[str, Any], rank: int) -> nn.Module:
    section = Gpt.model_validate(
        {"kind": "gpt", "layers": 2, "heads": 4, "width": 16, "context": 8, **settings}
    )
    torch.manual_seed(rank)
    return GptNetwork(section, TokenShape(outputs=13)).double()


def _step(
    rank: int, ranks: int, tensor: int, pipeline: int, settings: dict[str, Any], folder: str
) -> None:
    from trainwright.distributed.model_parallel import ModelParallel
    from trainwright.distributed.pipeline import PipelineParallel

    _join(rank, ranks, folder)
    draw = torch.Generator().manual_seed(1)
    rows = {name: torch.randint(13, (22, 7), generator=draw) for name in ("input", "target")}
    found: list[list[float]] = []
    strategies: tuple[Strategy, ...] = (
        PipelineParallel(torch.device("cpu"), tensor, pipeline)
        if pipeline > 1
        else ModelParallel(torch.device("cpu"), tensor),
        SingleProcess(),
    )
    for strategy in strategies:
        model = strategy.wrap(_network(settings, strategy.rank))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
        objective = Supervised(CrossEntropyLoss())
        step = OptimizerStep(model, objective, optimizer, strategy=strategy, max_norm=0.5)
        feed = Feed(
            rows,
            2,
            2 * ranks // (tensor * pipeline) // strategy.share.world_size,
            count_targets=element_targets,
            share=strategy.share,
            targets_of=lambda _, these: 7 * len(these),
        )
        outcomes = [step(feed.next_step()) for _ in range(12)]
        found.append(
            [
                read_number(number)
                for outcome in outcomes
                for number in (outcome.loss, outcome.gradient_norm)
            ]
        )
    (Path(folder) / f"{rank}.json").write_text(json.dumps(list(zip(*found, strict=True))))
    distributed.destroy_process_group()
    os._exit(0)  # see gloo_ranks


def _run_out(rank: int, ranks: int, folder: str) -> None:
    from trainwright.distributed.model_parallel import ModelParallel

    _join(rank, ranks, folder)
    strategy = ModelParallel(torch.device("cpu"), ranks)
    model = strategy.wrap(_network({}, rank))
    loss = Supervised(CrossEntropyLoss())

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        if rank == ranks - 1:
            raise RuntimeError(NO_MEMORY)
        return loss(model, batch)

    optimizer = torch.optim.AdamW(model.parameters())
    step = OptimizerStep(model, objective, optimizer, strategy=strategy)
    rows = torch.zeros(4, 8, dtype=torch.int64)
    feed = Feed({"input": rows, "target": rows}, 4, count_targets=element_targets)
    outcome = "no error"
    try:
        step(feed.next_step())
    except PeerLost:
        outcome = "peer"
    except Mistake as error:
        outcome = "memory" if "memory ran out" in str(error) else str(error)
    (Path(folder) / f"{rank}.txt").write_text(outcome)
    os._exit(0)
