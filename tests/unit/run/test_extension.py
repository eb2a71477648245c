"""A finished run with a new ending: the same bits as one planned longer, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import CONTRACT, Ran, command, inside, stopped_at, tree, with_layers, write_project
from faults.tiers import each
from trainwright.core.faultpoints import FaultInjected, arm
from trainwright.core.files import hash_file, read_json
from trainwright.tracking.event_log import read_events
from trainwright.tracking.signals import read_signals

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

STEPS = 7
NETWORK = with_layers("[16, 8]") + (
    "training:\n  num_epochs: 2\n  batch_size: 32\n  scheduler: {name: constant}\n"
    "  average: {kind: ema, decay: 0.9}\n  early_stopping: {patience: 50}\n"
    "  checkpointing: {save_every_n_steps: 5}\n"
)
RUN = Path("runs/one")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs as the run `one`, three as `three`."""
    folder = tmp_path_factory.mktemp("trained")
    write_project(folder, NETWORK.replace("hidden:", "dropout: 0.2\n  hidden:"))
    with inside(folder):
        assert train("one").code in (0, 3)
        assert train("three", "training.num_epochs=3").code in (0, 3)
    return folder


@pytest.fixture
def project(trained: Path, tmp_path: Path) -> Iterator[Path]:
    folder = Path(shutil.copytree(trained, tmp_path / "project"))
    with inside(folder):
        yield folder


def train(name: str, *settings: str) -> Ran:
    words = [word for setting in settings for word in ("--set", setting)]
    return command("train", "small.yaml", "--run", name, *words)


def extend(*words: str, name: str = "one") -> Ran:
    return command("resume", name, "--for", *words)


def bits(name: str) -> list[str]:
    """The model, the numbers of every step but its times, and the newest checkpoint."""
    run = Path("runs") / name
    signals = read_signals(run / "signals.jsonl")
    same = ("step", "epoch", "loss", "learning_rate", "gradient_norm", "samples")
    newest = run / "checkpoints" / read_json(run / "checkpoints/pointers.json")["newest"]
    states = [hash_file(path) for path in sorted(newest.glob("*.safetensors"))]
    return [
        newest.name,
        *states,
        json.dumps(read_json(newest / "values.json")["patience"]),
        json.dumps([signals[key] for key in same]),
        hash_file(run / "bundle" / "network.safetensors"),
    ]


def is_whole() -> bool:
    return command("runs", "verify", "one").code == 0


@pytest.mark.extended
def test_longer_is_as_if_planned_longer(project: Path) -> None:
    ran = extend("1 epoch")
    assert ran.code in (0, 3), ran.err
    assert "the rate stays constant" in ran.err
    assert bits("one") == bits("three")
    assert is_whole()
    again = command("resume", "one")
    assert "one is finished: nothing to do" in again.err


@pytest.mark.extended
@pytest.mark.usefixtures("project")
def test_the_explanation_of_the_model_before_is_removed() -> None:
    assert command("explain", "one").code == 0
    assert stopped_at(4, "resume", "one", "--for", "1 epoch").code == 75
    assert command("explain", "one").code == 0
    assert command("resume", "one").code in (0, 3)
    assert not (RUN / "explanation.json").exists()
    assert "What the model reads" not in (RUN / "report.html").read_text()
    assert is_whole()


@pytest.mark.extended
def test_many_short_extensions_are_one(project: Path) -> None:
    for amount in ("3 steps", "2 steps", "2 steps"):
        ran = extend(amount)
        assert ran.code in (0, 3), ran.err
    assert bits("one")[-1:] == bits("three")[-1:]
    assert bits("one")[-2] == bits("three")[-2]
    shown = json.loads(command("runs", "list", "--json").out)
    assert [row["extended"] for row in shown if row["name"] == "one"] == [
        ["3 steps", "2 steps", "2 steps"]
    ]
    assert is_whole()


@pytest.mark.parametrize("how", ["resume", "the same command", "train"])
def test_an_extension_that_is_stopped_goes_on(project: Path, how: str) -> None:
    done = stopped_at(4, "resume", "one", "--for", "1 epoch")
    assert done.code == 75, done.err
    assert read_json(RUN / "record.json")["ending"]["state"] == "interrupted"
    other = extend("2 epochs")
    assert other.code == 2
    assert "has not ended" in other.err
    words = {
        "resume": ("resume", "one"),
        "the same command": ("resume", "one", "--for", "1 epoch"),
        "train": ("train", "small.yaml", "--run", "one", "--resume"),
    }
    ran = command(*words[how])
    assert ran.code in (0, 3), ran.err
    assert bits("one") == bits("three")
    assert is_whole()


@pytest.mark.parametrize("at", each(3, [1, 2, 3, 5, 7, 8, 9, 10]))
def test_a_process_that_dies_while_it_extends(project: Path, at: int) -> None:
    arm(f"file.replace:{at}:raise")
    with pytest.raises(FaultInjected):
        extend("1 epoch")
    arm("")
    assert command("runs", "verify", "one").code == 0
    if not json.loads(command("runs", "show", "one", "--json").out)["extensions"]:
        assert command("resume", "one").code in (0, 3)
        assert extend("1 epoch").code in (0, 3)
    else:
        assert command("resume", "one").code in (0, 3)
    assert bits("one") == bits("three")
    assert is_whole()


@pytest.mark.parametrize(
    "point", each(2, ["step.done:3", "eval:1", "judge:1", "finish:1", "export:1"])
)
def test_a_process_that_dies_in_the_extension(project: Path, point: str) -> None:
    arm(f"{point}:raise")
    with pytest.raises(FaultInjected):
        extend("1 epoch")
    arm("")
    ran = command("resume", "one")
    assert ran.code in (0, 3), ran.err
    assert bits("one") == bits("three")
    assert is_whole()


def test_the_earlier_verdict_stays(project: Path) -> None:
    before = read_json(RUN / "evaluation.json")
    status = before["verdict"]["status"]
    ran = extend("1 epoch", "--json")
    (kept,) = (RUN / "endings").iterdir()
    assert kept.name == f"step-{2 * STEPS:010d}.json"
    assert read_json(kept) == before
    after = read_json(RUN / "evaluation.json")
    assert len(after["opened"]) == len(before["opened"]) + 1
    assert any(
        "this is verdict 2 on the same test rows" in one for one in json.loads(ran.out)["warnings"]
    )
    record = read_json(RUN / "record.json")
    assert record["attempts"][0]["ending"]["verdict"] == status
    (extension,) = json.loads(command("runs", "show", "one", "--json").out)["extensions"]
    assert (extension["by"], extension["step"], extension["verdict"]) == ("1 epoch", 14, status)
    assert (
        f"by 1 epoch after step 14, where the verdict was {status}"
        in command("runs", "show", "one").out
    )
    assert "by 1 epoch after step 14" in (RUN / "report.html").read_text()
    (noted,) = [e for e in read_events(RUN / "events.jsonl") if e.get("kind") == "extended"]
    assert "all 14 steps" in noted["message"]
    kept.write_text("{}")
    assert command("runs", "verify", "one").code == 13


@pytest.mark.extended
def test_a_schedule_is_held_where_it_arrived(project: Path) -> None:
    chosen = "training.scheduler={name: cosine, min_lr_ratio: 0.1}"
    assert train("cosine", chosen).code in (0, 3)
    ran = extend("1 epoch", name="cosine")
    assert "stays at its last value, 0.1 of the peak; --schedule redraw" in " ".join(
        ran.err.split()
    )
    rates = read_signals(Path("runs/cosine/signals.jsonl"))["learning_rate"]
    assert len(rates) == 3 * STEPS
    assert set(rates[2 * STEPS :]) == {rates[2 * STEPS - 1]}


@pytest.mark.extended
def test_a_schedule_is_drawn_again(project: Path) -> None:
    chosen = "training.scheduler={name: linear}"
    assert train("linear", chosen).code in (0, 3)
    before = tree(Path("runs/linear"))
    refused = extend("1 epoch", name="linear")
    assert refused.code == 2
    assert "the learning rate has fallen to 0" in refused.err
    assert tree(Path("runs/linear")) == before
    assert extend("1 epoch", "--schedule", "redraw", name="linear").code in (0, 3)
    assert train("whole", chosen, "training.num_epochs=3").code in (0, 3)
    ours, theirs = (
        read_signals(Path(f"runs/{name}/signals.jsonl"))["learning_rate"]
        for name in ("linear", "whole")
    )
    assert ours[2 * STEPS :] == theirs[2 * STEPS :]
    assert ours[: 2 * STEPS] != theirs[: 2 * STEPS]


@pytest.mark.extended
def test_what_is_a_share_of_the_run_stays(project: Path) -> None:
    ramp = "training.ramps.batch={start: 8, ratio: 0.5}"
    assert train("ramp", ramp).code in (0, 3)
    steps = len(read_signals(Path("runs/ramp/signals.jsonl"))["step"])
    ran = extend("1 epoch", name="ramp")
    assert ran.code in (0, 3), ran.err
    samples = read_signals(Path("runs/ramp/signals.jsonl"))["samples"]
    assert len(samples) == steps + STEPS
    assert samples[steps - 1] == 2 * 210
    assert samples[-1] == 3 * 210


@pytest.mark.extended
def test_a_limit_is_moved(project: Path) -> None:
    assert train("limit", "training.stop.max_steps=9").code in (0, 3)
    assert extend("1 epoch", name="limit").code in (0, 3)
    samples = read_signals(Path("runs/limit/signals.jsonl"))["samples"]
    assert samples[-1] >= samples[8] + 210 > samples[-2]
    assert command("runs", "verify", "limit").code == 0


REFUSED = {
    "trees": (CONTRACT, (), "model.kind"),
    "folds": (NETWORK, ("data.split={kind: stratified, folds: 2}",), "data.split.folds"),
    "seeds": (NETWORK, ("training.seeds=2",), "training.seeds"),
    "swa": (NETWORK, ("training.average={kind: swa, every_n_steps: 1}",), "training.average"),
    "no optimizer": (NETWORK, ("training.checkpointing.save_optimizer_state=false",), "optimizer"),
    "early": (
        NETWORK,
        ("training.stop.target_reached=0.01",),
        "not ended by its length",
    ),
}


@pytest.mark.extended
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_go_on(tmp_path: Path, case: str) -> None:
    contract, settings, said = REFUSED[case]
    write_project(tmp_path, contract)
    with inside(tmp_path):
        assert train("one", *settings).code in (0, 3)
        before = tree(tmp_path)
        ran = extend("1 epoch")
        assert ran.code == 2
        assert said in ran.err
        assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "amount", ["", " ", "5", "0 epochs", "5 hours", "-1 epoch", "many", "1.5 epochs", "٣ epochs"]
)
def test_no_amount(project: Path, amount: str) -> None:
    before = tree(project)
    ran = extend(amount)
    assert ran.code == 2
    assert "a number of epochs, steps or tokens" in ran.err
    assert "expected: a whole number of at least 1 and its unit" in ran.err
    assert amount.strip() or "found: an empty text" in ran.err
    assert tree(project) == before


def test_a_schedule_needs_a_new_ending(project: Path) -> None:
    ran = command("resume", "one", "--schedule", "redraw")
    assert ran.code == 2
    assert "only for a new ending" in ran.err


def test_rows_have_no_tokens(project: Path) -> None:
    ran = extend("5 tokens")
    assert ran.code == 2
    assert "only a text has tokens" in ran.err


def test_changed_data_is_no_extension(tmp_path: Path) -> None:
    write_project(tmp_path, NETWORK)
    with inside(tmp_path):
        assert train("one").code in (0, 3)
        with Path("rows.csv").open("a") as stream:
            stream.write("30,Bern,9.5,no\n")
        before = tree(RUN)
        ran = extend("1 epoch")
        assert ran.code == 11
        assert "rows.csv" in ran.err
        assert tree(RUN) == before


@pytest.mark.extended
@pytest.mark.parametrize("windows", ["across", "padded"])
def test_more_tokens_of_a_text(tmp_path: Path, windows: str) -> None:
    words = "".join(chr(97 + (at * at) % 23) for at in range(50))
    lines = [json.dumps({"body": words[at % 17 :][: 12 + at % 9]}) for at in range(160)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    (tmp_path / "text.yaml").write_text(
        f"data: {{kind: tokens, path: rows.jsonl, text: body, windows: {windows}, validation: 0.1, "
        f"test: 0.1}}\n"
        "model: {kind: gpt, context: 8, width: 8, layers: 1, heads: 1}\n"
        "training: {num_epochs: 1, batch_size: 32, scheduler: {name: constant}, "
        "early_stopping: off, stop: {max_tokens: 600}}\nmetric: {resamples: 100}\n"
    )
    with inside(tmp_path):
        for name, settings in (("one", ()), ("whole", ("--set", "training.stop.max_tokens=1200"))):
            ran = command("train", "text.yaml", "--run", name, *settings)
            assert ran.code in (0, 3), ran.err
        ended = read_signals(RUN / "signals.jsonl")["targets"]
        ran = extend(f"{1200 - int(sum(ended))} tokens")
        assert ran.code in (0, 3), ran.err
        assert bits("one")[-2:] == bits("whole")[-2:]


def test_a_finished_run_says_how_it_is_trained_further(project: Path) -> None:
    before = tree(RUN)
    ran = command("resume", "one")
    assert ran.code == {"met": 0}.get(read_json(RUN / "evaluation.json")["verdict"]["status"], 3)
    said = " ".join(ran.err.split())
    assert "one is finished: nothing to do" in said
    assert 'to train it further: trainwright resume runs/one --for "1 epoch"' in said
    assert tree(RUN) == before


@pytest.mark.row("F-59")
def test_a_finished_run_without_checkpoints_keeps_its_verdict(project: Path) -> None:
    shutil.rmtree(RUN / "checkpoints")
    (RUN / "checkpoints").mkdir()
    before = tree(RUN)
    ran = command("resume", "one")
    assert ran.code in (0, 3)
    said = " ".join(ran.err.split())
    assert "it cannot be trained further: runs/one/checkpoints holds no checkpoint" in said
    refused = extend("1 epoch")
    assert refused.code == 12
    assert "the checkpoints of this run are missing" in refused.err
    assert tree(RUN) == before
    assert command("resume", "one").code == ran.code


def test_a_finished_run_whose_checkpoints_are_all_damaged_keeps_its_verdict(project: Path) -> None:
    evaluation = (RUN / "evaluation.json").read_bytes()
    for path in (RUN / "checkpoints").glob("step-*/manifest.json"):
        path.write_text("{}")
    assert extend("1 epoch").code == 12
    assert (RUN / "evaluation.json").read_bytes() == evaluation
    assert command("resume", "one").code in (0, 3)
