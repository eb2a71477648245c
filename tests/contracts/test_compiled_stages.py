"""Stages of language models and their adapters, compiled: forward pass and loss of a micro-batch
are one graph, the numbers are those of the usual kernels, and a run that was killed goes on to the
same bits.

In the quick tests torch's own kernels run the graph, so that its bits are those of a run that is
not compiled. The others have the kernels of the compiler, in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from canary import Killed  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from deadlines import within  # noqa: E402
from made_stages import STEPS, stage_contract, write_stages  # noqa: E402
from made_texts import write_base, write_text_project  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.engine.execution import compile as compiling  # noqa: E402

pytestmark = pytest.mark.torch

COMPILED = "training.compute.compile=on"


@dataclass
class Graphs:
    """Graphs that were made of what was compiled, each run by torch's own kernels."""

    made: list[Any] = field(default_factory=list)

    def run_as_it_is(self, graph: Any, inputs: list[Any]) -> Callable[..., Any]:
        self.made.append([one.shape for one in inputs if isinstance(one, torch.Tensor)])
        run: Callable[..., Any] = graph.forward
        return run

    def widths(self) -> int:
        """Shapes that were compiled; each once, in a graph that nothing breaks."""
        return len({str(shapes) for shapes in self.made})


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Graphs:
    made, of_torch = Graphs(), torch.compile
    torch._dynamo.reset()

    def traced(compute: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        # A break is an error.
        return of_torch(compute, **settings, backend=made.run_as_it_is, fullgraph=True)

    monkeypatch.setattr(compiling.torch, "compile", traced)
    return made


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    write_stages(folder, layers=1)
    return folder


def same_as_usual(contract: Path, graphs: Graphs, *settings: str) -> Run:
    """Compiled, and killed at a random step, against a run that is neither."""
    usual = train(contract, f"{contract.stem}-usual", *settings)
    assert not graphs.made
    step = int(np.random.default_rng(len(str(settings))).integers(1, STEPS))
    with pytest.raises(Killed):
        train(contract, f"{contract.stem}-cut", COMPILED, *settings, dies_at=step)
    before = len(graphs.made)
    torch._dynamo.reset()
    again = train(contract, f"{contract.stem}-cut", COMPILED, *settings)
    assert before
    assert len(graphs.made) > before, "the second process compiled anew"
    assert bits(again) == bits(usual)
    assert again.signals["loss"] == usual.signals["loss"]
    return again


def test_packed_accumulated_dropped_out_averaged_and_compiled(
    project: Path, graphs: Graphs
) -> None:
    same_as_usual(stage_contract(project, "chats", "lora"), graphs)
    assert graphs.widths() == 1


def test_another_compiler_or_other_settings_of_it_do_not_go_on(
    project: Path, graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = stage_contract(project, "chats", "ia3")
    with pytest.raises(Killed):
        train(contract, "elsewhere", COMPILED, dies_at=2)
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    with pytest.raises(Mistake, match="compiler_settings none -> TORCHINDUCTOR_MAX_AUTOTUNE=1"):
        train(contract, "elsewhere", COMPILED)
    assert graphs.made


@pytest.mark.extended
@pytest.mark.parametrize(
    ("stage", "adapter"),
    [
        ("chats", "rslora"),
        ("chats", "dora"),
        ("chats", "ia3"),
        ("chats", "prompt"),
        ("pretraining", "none"),
        ("distillation", "none"),
    ],
)
def test_a_stage_is_one_graph(project: Path, graphs: Graphs, stage: str, adapter: str) -> None:
    same_as_usual(stage_contract(project, stage, adapter), graphs)
    assert graphs.widths() == 1


@pytest.mark.extended
def test_pairs_have_few_widths(project: Path, graphs: Graphs) -> None:
    """At most eight, however many lengths there are; the places behind an answer count nothing."""
    contract = stage_contract(project, "preferences", "lora")
    rows = [json.loads(line) for line in (project / "pairs.jsonl").read_text().splitlines()]
    for at, row in enumerate(rows):
        row["rejected"] = "tide " * (1 + at % 14)
    (project / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ("model.dropout=0.0", "model.adapter.dropout=0.0", "training.stop.max_steps=24")
    usual = train(contract, "pairs-usual", *settings)
    compiled = train(contract, "pairs-compiled", COMPILED, *settings)
    widths = {batch["tokens"].shape[2] for batch in batches_of(usual)}
    wide = {batch["tokens"].shape[2] for batch in batches_of(compiled)}
    assert len(widths) > 8 >= len(wide)
    assert graphs.widths() == len(graphs.made) == len(wide)
    assert compiled.signals["loss"] == pytest.approx(usual.signals["loss"], rel=2e-6)


def batches_of(run: Run) -> list[Mapping[str, Any]]:
    run.job.feed.seek(0)
    steps = run.ended.progress.step
    return [one for _ in range(steps) for one in run.job.feed.next_step().micro_batches]


@pytest.mark.extended
def test_texts_of_an_encoder_have_few_widths(
    tmp_path: Path, graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    contract = write_text_project(tmp_path)
    # Noise of dropout is drawn for each place, so that other widths have other noise.
    still = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    write_base(tmp_path / "base", **still)
    settings = (
        "model.adapter={kind: lora, rank: 2}",
        "model.length_buckets=1",
        "training.batch_size=1",
        "training.num_epochs=1",
        "training.stop.max_steps=16",
    )
    usual = train(contract, "usual", *settings)
    compiled = train(contract, "compiled", COMPILED, *settings)
    wide = {batch["input_ids"].shape[1] for batch in batches_of(compiled)}
    assert graphs.widths() == len(graphs.made) == len(wide) <= 8
    assert len({batch["input_ids"].shape[1] for batch in batches_of(usual)}) > len(wide)
    assert compiled.signals["loss"] == pytest.approx(usual.signals["loss"], rel=1e-5)


# The compiler's kernels


def in_a_process(folder: Path, *tasks: str, **environment: str) -> dict[str, tuple[Any, str]]:
    """What each run that ended says of itself."""
    tests = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, str(tests / "compiled_child.py"), str(folder), *tasks],
        env=os.environ
        | {"TORCHINDUCTOR_CACHE_DIR": str(folder / "kernels"), "PYTHONPATH": str(tests)}
        | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=within(300),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {name: (losses, state) for name, losses, state in lines}


def assert_resumes(folder: Path, contract: Path, **environment: str) -> list[float]:
    """Whole in one process, killed in it, and resumed in another, which hashes strings otherwise;
    the losses."""
    name = contract.stem
    step = int(np.random.default_rng(len(name)).integers(1, STEPS))
    tasks = (f"{name},{name}-kernels,-", f"{name},{name}-dies,{step}")
    whole = in_a_process(folder, *tasks, PYTHONHASHSEED="1")
    again = in_a_process(folder, f"{name},{name}-dies,-", PYTHONHASHSEED="2", **environment)
    assert list(whole) == [f"{name}-kernels"]
    assert again[f"{name}-dies"] == whole[f"{name}-kernels"]
    losses: list[float] = whole[f"{name}-kernels"][0]
    return losses


@pytest.mark.extended
@pytest.mark.timeout(400)
def test_kernels_that_are_made_anew_resume_to_the_same_bits(project: Path) -> None:
    """No kernel is taken from where the first process kept them."""
    assert_resumes(
        project,
        stage_contract(project, "chats", "lora"),
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("stage", "adapter"),
    [
        ("chats", "rslora"),
        ("chats", "dora"),
        ("chats", "ia3"),
        ("chats", "prompt"),
        ("preferences", "lora"),
        ("pretraining", "none"),
        ("distillation", "none"),
    ],
)
def test_compiled_kernels_of_a_stage_resume_to_the_same_bits(
    project: Path, stage: str, adapter: str
) -> None:
    assert_resumes(project, stage_contract(project, stage, adapter))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("stage", "adapter"), [("chats", "lora"), ("preferences", "dora"), ("distillation", "none")]
)
def test_compiled_kernels_have_the_losses_of_the_usual_ones(
    project: Path, stage: str, adapter: str
) -> None:
    """Without dropout, which draws other numbers. The order of sums in fp32 is another one: an ulp
    is 1.2e-7, and five updates move what differs by some of them."""
    contract = stage_contract(project, stage, adapter)
    text = contract.read_text().replace("dropout: 0.1", "dropout: 0.0")
    contract = project / f"still-{contract.name}"
    contract.write_text(text)
    usual = train(contract, contract.stem).signals["loss"]
    name = f"{contract.stem}-compiled"
    found = in_a_process(project, f"{contract.stem},{name},-")[name][0]
    assert found == pytest.approx(usual, rel=2e-6)
