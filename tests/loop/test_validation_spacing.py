"""Validations and checkpoints by steps and by tokens: where they fall, and that a cut changes no
bit of what follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import Killed  # noqa: E402
from command import NETWORK, command, inside, write_project  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from made_data import make_text  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.job import At  # noqa: E402

pytestmark = pytest.mark.torch

EVERY = "training.validate_every_n_steps=7"
PLATEAU = (
    "training.scheduler={name: reduce_on_plateau, patience: 1, factor: 0.5}",
    "training.early_stopping={patience: 40, metric: val_loss}",
    "training.optimizer.learning_rate=0.05",
    "training.num_epochs=6",
)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_project(tmp_path, NETWORK)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    make_text(tmp_path / "text.txt", 600)
    (tmp_path / "text.yaml").write_text(
        "data: {kind: tokens, path: text.txt}\n"
        "model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}\n"
        "training: {num_epochs: 1, batch_size: 16}\nmetric: {target: dummy}\n"
    )
    return tmp_path / "text.yaml"


def validated(run: Run) -> Mapping[str, float]:
    run.job.model.eval()
    with torch.no_grad():
        return run.job.validate()


def checkpoints(run: Run) -> list[int]:
    return sorted(int(path.name[5:]) for path in run.folder.checkpoints.glob("step-*"))


def test_validations_and_their_checkpoints_fall_on_steps_and_on_the_last_one(rows: Path) -> None:
    kept = "training.checkpointing.keep_top_k=20"
    run = train(rows, "one", "training.validate_every_n_steps=5", kept)
    last = run.ended.progress.step
    assert last == 28
    assert checkpoints(run) == [5, 10, 15, 20, 25, 28]
    assert run.ready.plan.contract.training.checkpointing.save_every_n_steps == 5


@pytest.mark.parametrize("cut", [3, 7, 8, 20, 30])
def test_a_cut_between_validations_changes_no_bit(cut: int, rows: Path) -> None:
    """Patience, plateau and the schedule listen to validations in the middle of epochs."""
    whole = train(rows, "whole", EVERY, *PLATEAU)
    with pytest.raises(Killed):
        train(rows, "cut", EVERY, *PLATEAU, dies_at=cut)
    resumed = train(rows, "cut", EVERY, *PLATEAU)
    assert bits(resumed) == bits(whole)
    assert resumed.signals["loss"] == whole.signals["loss"]
    assert resumed.signals["learning_rate"] == whole.signals["learning_rate"]
    assert len(set(whole.signals["learning_rate"])) > 1, "the plateau lowered the rate"
    assert resumed.ended.reason == whole.ended.reason
    assert resumed.job.patience.snapshot().values == whole.job.patience.snapshot().values


def test_early_stopping_counts_validations_not_epochs(rows: Path) -> None:
    stops = "training.early_stopping={patience: 2, min_delta: 10}"
    run = train(rows, "one", stops, "training.validate_every_n_steps=2", "training.num_epochs=50")
    assert run.ended.kind == "early"
    assert run.ended.progress.step == 6, "one gain, and two validations without"


def test_a_text_is_validated_and_saved_by_tokens(text: Path) -> None:
    """256 tokens a step: the step that reaches each multiple."""
    run = train(
        text,
        "one",
        "training.validate_every_n_tokens=2000",
        "training.checkpointing.save_every_n_tokens=1000",
        "training.checkpointing.keep_last=50",
    )
    last = run.ended.progress.step
    due = [step for step in range(1, last + 1) if run.job.validate_every.due(Progress(step=step))]
    tokens = range(2000, last * 256 + 1, 2000)
    assert due == [-(-count // 256) for count in tokens][: len(due)]
    assert len(due) >= 3
    saves = {-(-count // 256) for count in range(1000, last * 256 + 1, 1000)}
    assert checkpoints(run) == sorted({0, last, *due, *(s for s in saves if s <= last)})


def test_padded_documents_count_their_own_tokens(tmp_path: Path) -> None:
    documents = ["anna bob " * (1 + row % 7) for row in range(120)]
    (tmp_path / "text.txt").write_text("|".join(documents))
    (tmp_path / "c.yaml").write_text(
        "data: {kind: tokens, path: text.txt, separator: '|', windows: padded}\n"
        "model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 64}\n"
        "training: {num_epochs: 2, batch_size: 8, validate_every_n_tokens: 1500}\n"
        "metric: {target: dummy}\n"
    )
    run = train(tmp_path / "c.yaml", "one")
    assert isinstance(run.job.validate_every, At)
    feed, seen, due, step = run.job.feed, 0, set(), 0
    feed.seek(0)
    while step < run.ended.progress.step:
        step += 1
        before, seen = seen, seen + feed.next_step().targets
        if before // 1500 != seen // 1500:
            due.add(step)
    assert due == run.job.validate_every.steps


def test_slices_are_measured_at_each_validation(rows: Path) -> None:
    values = validated(train(rows, "one", "training.validation={slices: true, batch_size: 16}"))
    names = [name for name in values if "/" in name]
    assert len(names) > 1
    assert all(name.startswith("val_roc_auc/city=") for name in names)
    assert list(values)[-1] == "val_roc_auc", "what the screen shows comes last"


def test_the_batch_size_of_a_validation_changes_no_more_than_rounding(rows: Path) -> None:
    few = validated(train(rows, "few", "training.validation.batch_size=7"))
    assert few == pytest.approx(dict(validated(train(rows, "usual"))), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("training.validate_every_n_epochs=2", EVERY), "spacing of validations"),
        (("training.validate_every_n_tokens=100",), "validate_every_n_steps"),
        (("training.checkpointing.save_every_n_tokens=100",), "save_every_n_steps"),
        (("training.validation.slices=true", "slices=[]"), "no slices to measure"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    settings: tuple[str, ...], message: str, rows: Path
) -> None:
    with pytest.raises(Mistake, match=message):
        train(rows, "one", *settings)


def test_what_can_never_act_is_said_beforehand_and_the_fix_mends_it(tmp_path: Path) -> None:
    write_project(tmp_path, NETWORK.replace("num_epochs: 4", "num_epochs: 1"))
    with inside(tmp_path):
        warned = command("check", "small.yaml")
        assert (
            "the only validation follows the last step: early stopping" in warned.err + warned.out
        )
        plateau = "training.scheduler={name: reduce_on_plateau, patience: 3}"
        four = ("--set", plateau, "--set", "training.num_epochs=4")
        falls = command("check", "small.yaml", *four)
        assert "reduce_on_plateau can never lower the rate" in falls.err + falls.out
        for settings in (
            ("--set", "training.validate_every_n_steps=1"),
            ("--set", "training.num_epochs=4"),
        ):
            mended = command("check", "small.yaml", *settings)
            assert "can never" not in mended.err + mended.out
