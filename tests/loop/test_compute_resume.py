"""Every number format and every choice of kernels resumes bit for bit, and what a first start has
measured is kept by those that go on."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

import trainwright as tw  # noqa: E402
from command import command, inside, with_layers, write_project  # noqa: E402
from deadlines import within  # noqa: E402
from faults.tiers import also_slow  # noqa: E402
from made_data import make_images, make_text  # noqa: E402
from trainwright.core.errors import Interrupted  # noqa: E402
from trainwright.core.files import read_json  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.stopping.stop_rules import StopReason, StopRequested  # noqa: E402
from trainwright.planner.compute_trials import (  # noqa: E402
    CompiledTiming,
    ComputeSetting,
    Failed,
    Timing,
)
from trainwright.planner.plan_facts import DeviceFacts, read_device  # noqa: E402
from trainwright.planner.resolve import compute_choices  # noqa: E402
from trainwright.run.prepare import prepare_run as run_ready  # noqa: E402
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402
from trainwright.run.trial import compute_trial as run_trial  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the formats of a CPU"),
]

CUT, STEPS = 7, 12
COMMON = f"""
training: {{num_epochs: 2, batch_size: 16, early_stopping: off, stop: {{max_steps: {STEPS}}},
           checkpointing: {{save_every_n_steps: 5}}, optimizer: {{learning_rate: 0.01}}}}
metric: {{target: dummy, resamples: 100}}
"""
IMAGES = """
data: {kind: images, path: data, classes: [low, middle, high], validation: 0.2}
model: {kind: resnet, width: 8, blocks: [1, 1], dropout: 0.1}
"""
TEXT = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 16, dropout: 0.1}
"""
PATHS = {
    "training.mixed_precision",
    "training.compute.matrix_products",
    "training.compute.memory_format",
    "training.compute.compile",
}


@pytest.fixture
def contracts(tmp_path: Path) -> Mapping[str, Path]:
    make_images(tmp_path / "data", train=120, test=30)
    make_text(tmp_path / "text.txt", sentences=300)
    for name, text in (("images", IMAGES), ("text", TEXT)):
        (tmp_path / f"{name}.yaml").write_text(text + COMMON)
    return {name: tmp_path / f"{name}.yaml" for name in ("images", "text")}


@pytest.fixture
def measures_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the run, and whatever this CPU can."""
    for name in ("_SHORT_SECONDS", "_FEW_BATCHES", "_SMALL_BATCH", "LONG_SECONDS"):
        monkeypatch.setattr(compute_choices, name, 0)

    def able(for_network: bool) -> DeviceFacts:
        return replace(read_device(for_network), has_bf16=True, can_compile=False)

    monkeypatch.setattr(run_ready, "read_device", able)


def whole(contract: Path, runs: Path, *overrides: str) -> Path:
    return tw.train(contract, overrides=overrides, runs=runs, name="whole").folder


def cut(contract: Path, runs: Path, *overrides: str) -> None:
    """A process that is stopped after some steps."""

    def stop(_: StopRequested, progress: Progress) -> StopReason | None:
        return StopReason("interrupted", "a test") if progress.step == CUT else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopRequested, "reason", stop)
        with pytest.raises(Interrupted):
            tw.train(contract, overrides=overrides, runs=runs, name="cut")


def resumed(contract: Path, runs: Path, *overrides: str) -> Path:
    torch.rand(11)  # another process has drawn other numbers
    return tw.train(contract, overrides=overrides, runs=runs, name="cut", resume=True).folder


def weights(run: Path) -> dict[str, bytes]:
    tensors = load_file(run / "bundle" / "network.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def losses(run: Path) -> str:
    lines = (run / "signals.jsonl").read_text().splitlines()
    return "\n".join(line.split('"loss"')[1].split(",")[0] for line in lines)


def choices(run: Path) -> dict[str, Any]:
    return {one["path"]: one for one in read_json(run / "plan.json")["choices"]}


def assert_resumes(contract: Path, runs: Path, *overrides: str) -> Path:
    first = whole(contract, runs, *overrides)
    cut(contract, runs, *overrides)
    second = resumed(contract, runs, *overrides)
    assert weights(second) == weights(first)
    assert losses(second) == losses(first)
    return first


def precision(name: str) -> str:
    return f"training.mixed_precision={name}"


@pytest.mark.parametrize(
    ("kind", "overrides"),
    also_slow(
        [
            ("images", (precision("bf16"), "training.compute.memory_format=channels_last")),
            ("text", (precision("tf32"),)),
            ("text", (precision("fp16"),)),
        ],
        [
            ("images", (precision("fp32"), "training.compute.memory_format=contiguous")),
            ("images", (precision("fp16"),)),
            ("text", (precision("fp32"), "training.compute.matrix_products=onednn")),
            ("text", (precision("bf16"), "training.gradient_accumulation_steps=2")),
        ],
    ),
    ids=lambda value: (
        value if isinstance(value, str) else ", ".join(v.split(".")[-1] for v in value)
    ),
)
def test_a_number_format_resumes_to_the_same_bits(
    contracts: Mapping[str, Path], tmp_path: Path, kind: str, overrides: Sequence[str]
) -> None:
    settings = torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()
    assert_resumes(contracts[kind], tmp_path / "runs", *overrides)
    assert settings == (torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode())


def test_fp8_resumes_to_the_same_bits(
    contracts: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def able(for_network: bool) -> DeviceFacts:
        return replace(read_device(for_network), has_fp8=True)

    off = "training.compute.compile=off"
    ran = command("train", contracts["text"], "--set", precision("fp8"), "--runs", tmp_path / "r")
    assert ran.code == 2
    assert "training.mixed_precision: CPU does not compute in fp8" in ran.err
    assert not (tmp_path / "r").exists()
    # Torch computes float8 on a CPU too, so that its numbers can be tested without a GPU.
    monkeypatch.setattr(run_ready, "read_device", able)
    # It takes its time for that: a product of 32 rows some milliseconds.
    few = "training.batch_size=2"
    run = assert_resumes(contracts["text"], tmp_path / "runs", precision("fp8"), off, few)
    other = whole(contracts["text"], tmp_path / "other", precision("bf16"), off, few)
    assert losses(run) != losses(other)


STOPPING = f"""
from trainwright.engine.stopping import stop_rules
if {{cut}}:
    stop_rules.StopRequested.reason = lambda self, progress: (
        stop_rules.StopReason("interrupted", "a test") if progress.step == {CUT} else None
    )
from trainwright.cli.main import main
main()
"""


def in_a_process(folder: Path, *words: str, cut: bool = False) -> int:
    """The exit code of a training in a process of its own: the types that are checked in this one
    cannot be compiled."""
    script = STOPPING.format(cut=cut)
    done = subprocess.run(
        [sys.executable, "-c", script, "train", "small.yaml", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=within(200),
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_compiled_kernels_resume_to_the_same_bits(tmp_path: Path) -> None:
    # An epoch is two steps, the second of them short: both shapes are met before the cut.
    network = with_layers("[8]\n  dropout: 0.2\n  numeric_embedding: none")
    training = f"training: {{num_epochs: 6, batch_size: 128, stop: {{max_steps: {STEPS}}}}}\n"
    write_project(tmp_path, network + training)
    # The last of five steps is measured, and for that computed by the usual kernels.
    windows = ("--set", "tracking.windows={every_n_steps: 5}")
    on = (*windows, "--set", "training.compute.compile=on")
    assert in_a_process(tmp_path, "--run", "whole", *on) in (0, 3)
    assert in_a_process(tmp_path, "--run", "cut", *on, cut=True) == 75
    assert in_a_process(tmp_path, "--run", "cut", "--resume", *on) in (0, 3)
    assert in_a_process(tmp_path, "--run", "usual", *windows) in (0, 3)
    whole, again, usual = (tmp_path / "runs" / name for name in ("whole", "cut", "usual"))
    assert weights(again) == weights(whole)
    assert losses(again) == losses(whole)
    lines = [(run / "windows.jsonl").read_text().splitlines() for run in (whole, again)]
    assert len(lines[0]) == len(lines[1]) == 2
    assert "mfu_measured" in lines[0][0]
    assert losses(usual) != losses(whole), "dropout draws other numbers in compiled kernels"
    last = [float(losses(one).splitlines()[-1].strip(": ")) for one in (whole, usual)]
    assert last[0] == pytest.approx(last[1], abs=0.2)
    for file in ("bundle/network.safetensors", "checkpoints/step-*/model.safetensors"):
        names = [load_file(next(run.glob(file))).keys() for run in (whole, usual)]
        assert names[0] == names[1]


# What is measured


class Machine:
    """Says that bf16 and contiguous images are fast; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def product_error(self) -> float:
        return 3e-7

    def time(self, settings: Sequence[ComputeSetting]) -> Mapping[ComputeSetting, Timing | Failed]:
        self.asked += 1
        slow = {"fp32": 2.0, "bf16": 1.0, "contiguous": 1.0, "channels_last": 1.5}
        return {
            one: Timing(slow[one.precision] * slow[one.memory_format], 1.0, 2.0, 1.0)
            for one in settings
        }

    def without_determinism(
        self, setting: ComputeSetting
    ) -> tuple[Timing | Failed, Timing | Failed]:
        return Failed("not looked at"), Failed("not looked at")

    def compile(self, setting: ComputeSetting) -> CompiledTiming | Failed:
        raise AssertionError("this machine has no compiler")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    monkeypatch.setattr(run_trial, "build_trial", lambda plan, prepared: made)
    return made


@pytest.mark.usefixtures("measures_all")
@pytest.mark.parametrize("kind", ["images", "text"])
def test_a_resumed_run_keeps_what_its_first_start_measured(
    contracts: Mapping[str, Path], tmp_path: Path, machine: Machine, kind: str
) -> None:
    contract, runs = contracts[kind], tmp_path / "runs"
    first = whole(contract, runs)
    cut(contract, runs)
    assert machine.asked == 2
    begun = choices(runs / "cut")
    assert begun["training.mixed_precision"]["value"] == "bf16"
    assert begun["training.mixed_precision"]["measured"]
    second = resumed(contract, runs)
    assert machine.asked == 2, "nothing is measured again"
    assert {path: choices(runs / "cut")[path] for path in PATHS} == {p: begun[p] for p in PATHS}
    plans = [read_json(runs / name / "plan.json") for name in ("whole", "cut")]
    assert plans[0]["hash"] == plans[1]["hash"]
    assert weights(second) == weights(first)


@pytest.mark.usefixtures("measures_all", "machine")
def test_another_format_than_the_measured_one_is_another_run(
    contracts: Mapping[str, Path], tmp_path: Path
) -> None:
    contract, runs = contracts["text"], tmp_path / "runs"
    cut(contract, runs)
    words = ("train", contract, "--runs", runs, "--run", "cut", "--resume")
    ran = command(*words, "--set", precision("fp32"))
    assert ran.code == 2
    assert "training.mixed_precision: run cut was started with another contract" in ran.err
    assert "found: fp32" in ran.err
    assert "expected: bf16" in ran.err
    assert command(*words, "--set", precision("bf16")).code in (0, 3)


@pytest.mark.usefixtures("measures_all")
@pytest.mark.parametrize("kind", ["images", "text"])
def test_a_measurement_changes_nothing_of_the_run_behind_it(
    contracts: Mapping[str, Path], tmp_path: Path, kind: str
) -> None:
    run = whole(contracts[kind], tmp_path / "runs")
    made = choices(run)
    assert made["training.mixed_precision"]["measured"], "this time the machine was asked"
    spelled = [f"{path}={made[path]['value']}" for path in PATHS]
    again = whole(contracts[kind], tmp_path / "spelled", *spelled)
    assert weights(again) == weights(run)
    assert losses(again) == losses(run)
    plans = [read_json(one / "plan.json") for one in (run, again)]
    assert plans[0]["hash"] == plans[1]["hash"]


def test_a_trial_has_the_batches_of_most_of_the_run(
    contracts: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ramp = "training.ramps.batch={start: 4}"
    request = Request(contracts["text"], (ramp,))
    ready = run_ready.make_ready(request, StageTimes(), StreamScreen(io.StringIO()))
    rows: list[int] = []
    monkeypatch.setattr(
        run_trial, "ModelTrial", lambda model, objective, batch, *rest: rows.append(len(batch[0]))
    )
    run_trial.build_trial(ready.plan, ready.prepared)
    assert rows == [16]


def test_making_a_trial_draws_no_random_number(contracts: Mapping[str, Path]) -> None:
    request = Request(contracts["text"], ())
    ready = run_ready.make_ready(request, StageTimes(), StreamScreen(io.StringIO()))
    before = torch.get_rng_state()
    trial = run_trial.build_trial(ready.plan, ready.prepared)
    assert torch.equal(torch.get_rng_state(), before)
    trial.time([ComputeSetting("fp32"), ComputeSetting("bf16")])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("measures_all")
def test_a_check_measures_nothing(contracts: Mapping[str, Path], machine: Machine) -> None:
    with inside(contracts["text"].parent):
        for words in (("check", "text.yaml"), ("train", "text.yaml", "--dry-run")):
            ran = command(*words)
            assert ran.code == 0
            assert "training.mixed_precision = auto (measured when a run starts)" in ran.out
    assert machine.asked == 0
