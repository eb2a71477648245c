"""Commands on searches and trackers that refuse, and the command that their fix names."""

from __future__ import annotations

from pathlib import Path

from advised.commands import Refused
from command import CONTRACT, command, inside, write_project

SEARCH = "tune: {over: {model.num_leaves: [2, 4, 8]}, trials: 2}\n"


def make_tuning(folder: Path) -> Path:
    """A project with a judged study of two trials, `one`, and a run without a tracker, `plain`."""
    write_project(folder, CONTRACT + SEARCH)
    with inside(folder):
        Path("plain.yaml").write_text(CONTRACT)
        for words in (
            ("tune", "small.yaml", "--study", "one"),
            ("train", "plain.yaml", "--run", "plain"),
        ):
            ran = command(*words)
            assert ran.code in (0, 3), ran.err
    return folder


CASES = (
    Refused("name one with --sink", "runs sync plain", ("runs sync plain --sink tensorboard",)),
    Refused(
        "for example --mlflow-uri http://127.0.0.1:5000",
        "runs sync plain --sink mlflow",
        ("runs sync plain --sink mlflow --mlflow-uri http://127.0.0.1:5000 --seconds 1",),
        codes=(0, 75),  # nothing listens there
    ),
    Refused(
        "leave out --tune, or name a family: --set model.kind=boosting",
        "init rows.csv --target bought -o new.yaml --tune --set model.kind=auto",
        (
            "init rows.csv --target bought -o new.yaml --set model.kind=auto",
            "init rows.csv --target bought -o other.yaml --tune --set model.kind=boosting",
        ),
    ),
    Refused(
        "write folds: off, which scores on the validation rows",
        "tune small.yaml --study folds --set tune.folds=2 --set data.weight=age",
        ("tune small.yaml --study folds --set tune.folds=off --set data.weight=age",),
    ),
    Refused(
        "add for example tune: {over: {model.learning_rate: {low: 0.01, high: 0.3}}}",
        "tune plain.yaml --study new",
        (
            "tune plain.yaml --study new --set tune.trials=2 "
            "--set 'tune.over={{model.learning_rate: {{low: 0.01, high: 0.3}}}}'",
        ),
    ),
    Refused(
        "go on with it by --resume, or choose another name",
        "tune small.yaml --study one",
        ("tune small.yaml --study one --resume", "tune small.yaml --study other"),
    ),
    Refused(
        "start another study that knows these trials: tune.start: runs/one",
        "tune small.yaml --study one --resume --set tune.trials=3",
        ("tune small.yaml --study more --set tune.start=runs/one",),
    ),
    Refused(
        "start one without --resume, or name one with --study NAME",
        "tune small.yaml --resume --set name=other",
        ("tune small.yaml --set name=other", "tune small.yaml --study one --resume"),
    ),
    Refused(
        "name another study, or remove tune.start",
        "tune small.yaml --study more --set tune.start=runs/plain",
        ("tune small.yaml --study more --set tune.start=runs/one", "tune small.yaml --study less"),
    ),
)
