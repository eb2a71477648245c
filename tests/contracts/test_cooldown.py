"""A run that begins at a checkpoint of another one: the bits of a run planned so from the first
step; and lengths in steps and tokens."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import trainwright as tw
from command import Ran, command, inside, stopped_at, tree
from trainwright.core.files import hash_file, read_json
from trainwright.tracking.event_log import read_events
from trainwright.tracking.signals import read_signals

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

CONTRACT = """
name: long
task: generation
data: {kind: tokens, path: notes.txt, separator: "\\n\\n", windows: packed,
       validation: 0.1, test: 0.1}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}
training:
  num_steps: 20
  batch_size: 4
  gradient_accumulation_steps: 2
  early_stopping: off
  validate_every_n_steps: 8
  optimizer: {learning_rate: 0.01}
  scheduler: {name: warmup_stable_decay, warmup_steps: 3, decay_steps: 4}
  checkpointing: {save_every_n_steps: 4, keep_every_n_steps: 4}
metric: {name: bits_per_byte, target: dummy, resamples: 100}
"""
SHORT = ("training.num_steps=12",)


def write_notes(folder: Path) -> None:
    draw = random.Random(5)
    words = ["ab", "cab", "bad", "fade", "deaf", "bead"]
    notes = [" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(90)]
    (folder / "notes.txt").write_text("\n\n".join(notes))
    (folder / "long.yaml").write_text(CONTRACT)


def train(name: str, *settings: str, begin: str = "") -> Ran:
    words = [word for setting in settings for word in ("--set", setting)]
    words += ["--from", begin] if begin else []
    return command("train", "long.yaml", "--run", name, *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long run, and the short one that was planned with its cooldown."""
    folder = tmp_path_factory.mktemp("cooldown")
    write_notes(folder)
    with inside(folder):
        for name, settings in (("long", ()), ("planned", SHORT)):
            ran = train(name, *settings)
            assert ran.code in (0, 3), ran.err
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Iterator[Path]:
    folder = Path(shutil.copytree(made, tmp_path / "project"))
    with inside(folder):
        yield folder


def bits(name: str, since: int) -> list[object]:
    """Weights, state of the last step, and the numbers of the steps behind `since`."""
    run = Path("runs") / name
    signals = read_signals(run / "signals.jsonl")
    steps = signals["step"]
    later = [at for at, step in enumerate(steps) if step > since]
    assert len(later) == 12 - since
    newest = run / "checkpoints" / read_json(run / "checkpoints/pointers.json")["newest"]
    same = ("step", "epoch", "loss", "learning_rate", "gradient_norm", "samples")
    judged = read_json(run / "evaluation.json")["evaluation"]["metrics"]
    return [
        newest.name,
        *(hash_file(path) for path in sorted(newest.glob("*.safetensors"))),
        [[signals[key][at] for at in later] for key in same],
        hash_file(run / "bundle" / "network.safetensors"),
        judged,
    ]


@pytest.mark.extended
@pytest.mark.parametrize("step", [4, 8])
def test_a_cooldown_from_a_checkpoint_is_the_one_that_was_planned(project: Path, step: int) -> None:
    before = tree(Path("runs/long"))
    ran = train("cooled", *SHORT, begin=f"long@{step}")
    assert ran.code in (0, 3), ran.err
    assert bits("cooled", step) == bits("planned", step)
    assert tree(Path("runs/long")) == before, "the run it begins at is not written to"
    plan = read_json(Path("runs/cooled/plan.json"))
    assert plan["start"]["step"] == step
    assert plan["start"]["run"] == str(Path("runs/long").absolute())
    assert f"at step {step} of long" in ran.err
    assert f"step {step} of long" in command("runs", "show", "cooled").out
    assert f"step {step} of long" in Path("runs/cooled/report.html").read_text()
    verified = command("runs", "verify", "cooled")
    assert verified.code == 0, verified.out
    assert command("resume", "cooled").code in (0, 3)


@pytest.mark.extended
def test_from_python_it_is_the_same_run(project: Path) -> None:
    run = tw.train("long.yaml", overrides=SHORT, name="cooled", start="long@8")
    assert run.folder == Path("runs/cooled")
    assert bits("cooled", 8) == bits("planned", 8)


def test_a_dry_run_says_where_it_would_begin(project: Path) -> None:
    before = tree(project)
    words = ("train", "long.yaml", "--dry-run", "--set", SHORT[0], "--from")
    ran = command(*words, "long@8")
    assert ran.code == 0, ran.err
    assert "at step 8 of long" in ran.out
    assert ran.out.splitlines()[-1].endswith("--from long@8")
    refused = command(*words, "long@7")
    assert refused.code == 2
    assert "no checkpoint to begin at" in refused.err
    slower = command(*words, "long@8", "--set", "training.optimizer.learning_rate=0.1")
    assert slower.code == 2
    assert tree(project) == before


def test_a_run_is_found_by_its_name_beside_a_folder_of_that_name(project: Path) -> None:
    Path("long").mkdir()
    (Path("long") / "notes.txt").write_text("not a run")
    shown = command("runs", "show", "long")
    assert shown.code == 0, shown.err
    assert command("generate", "long", "ab", "--tokens", "3").code == 0
    other = Path(shutil.copytree("runs/long", "aside"))
    assert command("runs", "show", other.name).code == 0, "a run here, where no other has its name"


def test_a_cooldown_that_is_killed_goes_on(project: Path) -> None:
    stop = random.Random().randint(1, 3)
    words = ["--set", SHORT[0], "--from", "long@8"]
    assert stopped_at(stop, "train", "long.yaml", "--run", "cooled", *words).code == 75
    # Its own first checkpoint is enough: that of the other run may be gone.
    shutil.rmtree("runs/long/checkpoints")
    assert command("resume", "cooled").code in (0, 3)
    assert bits("cooled", 8) == bits("planned", 8)


@pytest.mark.parametrize(
    ("settings", "begin", "said"),
    [
        (SHORT, "long@5", "run long has no checkpoint to begin at"),
        (SHORT, "long@now", "a run begins at a step of another one"),
        (SHORT, "absent@4", "absent"),
        (("training.num_steps=8",), "long@8", "the run would be over where it begins"),
        ((*SHORT, "seed=3"), "long@8", "run long was trained with another value"),
        ((*SHORT, "model.width=32"), "long@8", "run long was trained with another value"),
        ((*SHORT, "training.scheduler.warmup_steps=5"), "long@8", "the learning rate is not that"),
        ((*SHORT, "training.scheduler.decay_steps=6"), "long@8", "not that of run long before"),
        ((*SHORT, "training.early_stopping={}"), "long@8", "cannot begin at a checkpoint"),
        ((*SHORT, "training.seeds=2"), "long@8", "cannot begin at a checkpoint"),
    ],
)
def test_what_would_not_be_the_same_run_is_refused(
    project: Path, settings: tuple[str, ...], begin: str, said: str
) -> None:
    ran = train("cooled", *settings, begin=begin)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert not Path("runs/cooled").exists()


@pytest.mark.usefixtures("project")
def test_trees_have_no_such_checkpoints() -> None:
    Path("rows.csv").write_text("x,y\n" + "\n".join(f"{at},{at % 7}" for at in range(200)))
    text = "name: trees\ndata: {path: rows.csv, target: y}\nmodel: {kind: boosting, max_trees: 3}\n"
    Path("trees.yaml").write_text(text)
    ran = command("train", "trees.yaml", "--run", "cooled", "--from", "long@8")
    assert (ran.code, "boosting" in ran.err) == (2, True), ran.err
    assert not Path("runs/cooled").exists()


def test_other_data_is_refused(project: Path) -> None:
    notes = Path("notes.txt")
    notes.write_text(notes.read_text() + "\n\nbad cab")
    ran = train("cooled", *SHORT, begin="long@8")
    assert ran.code == 11
    assert not Path("runs/cooled").exists()


@pytest.mark.extended
def test_lengths_in_steps_and_tokens_span_the_schedule(project: Path) -> None:
    """A step of 8 windows of 16 places: 5 steps of `num_tokens` reach 640 of them."""
    ran = train(
        "tokens",
        "training.num_steps=off",
        "training.num_tokens=600",
        "training.validate_every_n_steps=off",
        "training.validate_every_n_tokens=300",
    )
    assert ran.code in (0, 3), ran.err
    signals = read_signals(Path("runs/tokens/signals.jsonl"))
    assert signals["step"][-1] == 5
    # Warmup, one step at the peak, and the decay of four steps to 0.
    assert signals["learning_rate"][-1] == 0
    assert signals["learning_rate"][0] == pytest.approx(0.01 / 3)
    events = read_events(Path("runs/tokens/events.jsonl"))
    assert [one["step"] for one in events if one["event"] == "validated"] == [3, 5]
    plan = read_json(Path("runs/tokens/plan.json"))["contract"]["training"]
    assert plan["stop"]["max_tokens"] == 600
    long = read_signals(Path("runs/long/signals.jsonl"))
    assert (long["step"][-1], long["learning_rate"][-1]) == (20, 0)
    assert "20 steps," in train("again", "training.num_steps=20").err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.num_epochs=3", "the length of the training is given twice"),
        ("training.num_tokens=3000", "the length of the training is given twice"),
        ("training.stop.max_steps=3", "the length of the training is given twice"),
        ("training.ramps.batch={start: 2}", "it ends after a share of the rows"),
        ("training.scheduler.decay_ratio=0.1", "the decay is given twice"),
    ],
)
def test_a_length_is_given_once(project: Path, setting: str, said: str) -> None:
    ran = train("twice", setting)
    assert (ran.code, said in ran.err) == (2, True), ran.err
