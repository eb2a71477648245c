"""Runs that do not go on as they are asked to, and the command that their fix names."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from advised.commands import Refused, cut, half
from command import command, stopped_at
from trainwright.core.files import read_json, write_json

THREADS = torch.get_num_threads()
COPIES = "file://{}/copies/cut"


def light(_: Path) -> None:
    """A run that was cut, whose checkpoints lack the optimizer."""
    words = ("--set", "training.checkpointing={save_optimizer_state: false, save_every_n_steps: 5}")
    assert stopped_at(12, "train", "net.yaml", "--run", "light", *words).code == 75


def other_bits(_: Path) -> None:
    """A run that was cut where torch has another number of threads."""
    torch.set_num_threads(THREADS + 1)
    try:
        assert stopped_at(12, "train", "net.yaml", "--run", "other").code == 75
    finally:
        torch.set_num_threads(THREADS)


def cut_here(project: Path) -> None:
    """The run that was cut and its copies, made in this very project: it goes on copying to the
    folder where it began."""
    for folder in ("runs", "copies"):
        shutil.rmtree(Path(folder, "cut"))
    cut(project)


def lost(_: Path) -> None:
    """Nothing but the copies of the run that was cut."""
    shutil.rmtree("runs/cut")


def another(_: Path) -> None:
    """Another run where the copies would come back to."""
    lost(_)
    shutil.copytree("runs/net", "runs/cut")


def older(project: Path) -> None:
    """Copies that lack the newest checkpoint."""
    cut_here(project)
    for path in Path("copies/cut").glob("step-0000000012-*"):
        shutil.rmtree(path)


def checkpoints_alone(_: Path) -> None:
    shutil.rmtree("copies/cut/files")
    shutil.rmtree("runs/cut/checkpoints")


def moved(project: Path) -> None:
    """The run's machine is lost; contract and data lie elsewhere on this one."""
    cut_here(project)
    lost(project)
    Path("elsewhere").mkdir()
    shutil.copy("net.yaml", "elsewhere")
    Path("rows.csv").rename("elsewhere/rows.csv")


def edited_plan(_: Path) -> None:
    plan = read_json(Path("runs/cut/plan.json"))
    write_json(Path("runs/cut/plan.json"), {**plan, "overrides": []})


def twice(_: Path) -> None:
    """A run of two seeds."""
    given = ("--set", "training.seeds=2", "--set", "training.num_epochs=1")
    assert command("train", "net.yaml", "--run", "twice", *given).code in (0, 3)


def still(_: Path) -> None:
    """A run whose rate is 0 at its end."""
    given = ("--set", "training.scheduler.name=linear", "--set", "training.num_epochs=1")
    assert command("train", "net.yaml", "--run", "still", *given).code in (0, 3)


CASES = (
    Refused(
        "start a new run without --resume", "resume light", ("train net.yaml --run heavy",), light
    ),
    Refused(
        f"resume with the same threads: --set compute.threads={THREADS + 1}, or accept other last "
        "bits: "
        "--set resume.numerics_changed=record",
        "resume other",
        (
            f"train net.yaml --run other --resume --set compute.threads={THREADS + 1}",
            "train net.yaml --run other --resume --set resume.numerics_changed=record",
        ),
        other_bits,
    ),
    Refused(
        "resume that run: trainwright resume file://{}/copies/cut; or name this one differently "
        "with --run NAME",
        "train net.yaml --run cut --runs others "
        "--set training.checkpointing.remote=file://{}/copies",
        (
            f"resume {COPIES}",
            "train net.yaml --run anew --runs others "
            "--set training.checkpointing.remote=file://{}/copies",
        ),
    ),
    Refused(
        "bring it back first: trainwright resume file://{}/copies/cut --runs runs; then give --for "
        "with cut",
        f"resume {COPIES} --for '1 epoch'",
        (f"resume {COPIES} --runs runs", "resume cut --for '1 epoch' --schedule redraw"),
        lost,
    ),
    Refused(
        "give another folder for runs with --runs FOLDER",
        f"resume {COPIES}",
        (f"resume {COPIES} --runs others",),
        another,
    ),
    Refused(
        "go on with it: trainwright resume runs/cut",
        f"resume {COPIES}",
        ("resume runs/cut",),
        older,
    ),
    Refused(
        "bring the run folder without its checkpoints here from elsewhere, then: "
        "trainwright train CONTRACT --run NAME --resume",
        f"resume {COPIES}",
        ("train net.yaml --run cut --resume --set training.checkpointing.remote=file://{}/copies",),
        checkpoints_alone,
    ),
    Refused(
        "put them there and give: trainwright resume runs/cut; or, where contract and data lie "
        "elsewhere: trainwright train CONTRACT --run cut --runs runs --resume",
        f"resume {COPIES}",
        (
            "train elsewhere/net.yaml --run cut --runs runs --resume",
            "cp elsewhere/rows.csv rows.csv",
            "resume runs/cut",
        ),
        moved,
    ),
    Refused(
        "put it back, or name the contract yourself: trainwright train CONTRACT --runs runs "
        "--run cut --resume",
        "resume cut",
        ("train net.yaml --runs runs --run cut --resume",),
        edited_plan,
    ),
    Refused(
        "start a new run with more training.num_epochs",
        "resume twice --for '1 epoch'",
        ("train net.yaml --set training.seeds=2 --set training.num_epochs=2",),
        twice,
    ),
    Refused(
        "start a new run with more model.max_trees",
        "resume one --for '1 epoch'",
        ("train small.yaml --set model.max_trees=9",),
    ),
    Refused(
        "name epochs or steps",
        "resume net --for '5 tokens' --schedule redraw",
        (
            "resume net --for '1 epoch' --schedule redraw",
            "resume net --for '2 steps' --schedule redraw",
        ),
    ),
    Refused(
        "let it end first: trainwright resume runs/half",
        "resume half --for '1 epoch'",
        ("resume runs/half",),
        half,
    ),
    Refused(
        "draw it over the whole new length: --schedule redraw",
        "resume still --for '1 epoch'",
        ("resume still --for '1 epoch' --schedule redraw",),
        still,
    ),
    Refused(
        'add for example --for "5 epochs", or remove it',
        "resume net --schedule redraw",
        ('resume net --schedule redraw --for "5 epochs"', "resume net"),
    ),
    Refused(
        'write for example --for "5 epochs"',
        "resume net --for more",
        ('resume net --schedule redraw --for "5 epochs"',),
    ),
)
