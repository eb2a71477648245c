"""A run with three folds that is stopped behind a step, and goes on."""

from __future__ import annotations

from pathlib import Path

from command import command, stopped_at
from trainwright.core.files import hash_file, read_json


def check_goes_on(contract: str, step: int) -> None:
    """The run that is stopped behind so many steps of all its trainings, and resumed, ends with the
    models and the verdict of the run `whole`, which was not."""
    done = stopped_at(step, "train", contract, "--run", "cut")
    assert done.code == 75, done.err
    ran = command("train", contract, "--run", "cut", "--resume")
    assert ran.code in (0, 3), ran.err
    for part in ("folds/01/", "folds/02/", "folds/03/", ""):
        found = [
            hash_file(Path("runs", run, part, "bundle/network.safetensors"))
            for run in ("whole", "cut")
        ]
        assert found[0] == found[1], part
    judged = [read_json(Path("runs", run, "evaluation.json")) for run in ("whole", "cut")]
    for key in ("evaluation", "verdict", "by_fold"):
        assert judged[0][key] == judged[1][key]
    assert command("runs", "verify", "cut").code == 0
