"""Taking up a run again: what is the same run, what is refused, and what the record says."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import (
    CONTRACT,
    command,
    events_of_one,
    project_in,
    stopped_at,
    tree,
    unended,
    with_layers,
    write_rows,
)
from faults.zygote import Zygote
from trainwright.core.files import hash_file, read_json, write_json

NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 40\n  batch_size: 32\n  early_stopping: {patience: 1000}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


def trained(*words: str) -> Path:
    """The folder of a run that came to its verdict."""
    ran = command("train", "small.yaml", "--run", "one", *words)
    assert ran.code in (0, 3), ran.err
    return Path("runs/one")


def state() -> Any:
    (only,) = json.loads(command("runs", "list", "--json").out)
    return only["state"]


def without_lock(folder: Path) -> dict[str, str]:
    return {path: digest for path, digest in tree(folder).items() if path != "lock"}


def test_a_name_is_looked_at_before_the_data(project: Path) -> None:
    (project / "rows.csv").unlink()
    (project / "runs" / "taken" / "data").mkdir(parents=True)
    before = tree(project)
    for words, message in (
        (["--run", "taken"], "a run named taken is there already"),
        (["--run", "../x"], "the run's name is not a safe name"),
        (["--run", "../x", "--resume"], "the run's name is not a safe name"),
    ):
        ran = command("train", "small.yaml", *words)
        assert ran.code == 2
        assert message in ran.err
        assert "rows.csv" not in ran.err
    assert tree(project) == before


@pytest.mark.row("F-12")
def test_a_finished_run_stays_as_it_is(project: Path) -> None:
    run = trained()
    before = without_lock(run)
    first = json.loads(command("evaluate", "one", "--json").out)
    ran = command("train", "small.yaml", "--run", "one", "--resume", "--json")
    assert "one is finished: nothing to do" in ran.err
    assert json.loads(ran.out) == first
    assert ran.code == (0 if first["verdict"] == "met" else 3)
    assert without_lock(run) == before
    assert state() == "finished"


def test_a_killed_run_is_interrupted_and_comes_to_its_verdict(project: Path) -> None:
    run = trained()
    first = json.loads(command("evaluate", "one", "--json").out)
    unended(run)
    assert state() == "interrupted"
    assert command("evaluate", "one").code == 2
    ran = command("train", "small.yaml", "--resume", "--run", "one", "--json")
    assert json.loads(ran.out) == first
    assert state() == "finished"
    assert len(read_json(run / "record.json")["attempts"]) == 2


def test_a_lost_record_is_told_where_it_begins_anew(project: Path) -> None:
    run = trained()
    unended(run)
    (run / "record.json").unlink()
    ran = command("train", "small.yaml", "--resume", "--run", "one")
    assert ran.code in (0, 3), ran.err
    assert "record.json is missing: it begins anew" in ran.err
    assert "record_missing" in [one["kind"] for one in events_of_one("noted")]
    assert len(read_json(run / "record.json")["attempts"]) == 1


def test_the_newest_unfinished_run_of_the_contract_goes_on(project: Path) -> None:
    for _ in range(2):
        assert command("train", "small.yaml").code in (0, 3)
    unended(Path("runs/small-1"))
    ran = command("train", "small.yaml", "--resume", "--json")
    assert json.loads(ran.out)["run"] == "small-1"
    again = command("train", "small.yaml", "--resume")
    assert again.code == 2
    assert "no unfinished run of small" in again.err


@pytest.mark.row("F-14")
def test_another_contract_is_refused_with_the_path(project: Path) -> None:
    unended(trained())
    before = without_lock(project / "runs")
    text = CONTRACT.replace("max_trees: 5", "max_trees: 6").replace("target: 0.6", "target: 0.7")
    Path("small.yaml").write_text(text)
    ran = command("train", "small.yaml", "--run", "one", "--resume")
    assert ran.code == 2
    assert "small.yaml:9: model.max_trees: run one was started with another contract" in ran.err
    assert "    found: 6\n    expected: 5\n    fix: " in ran.err
    assert "small.yaml:12: metric.target: " in ran.err
    after = without_lock(project / "runs")
    assert {k: v for k, v in after.items() if k != "one/lock"} == {
        k: v for k, v in before.items() if k != "one/lock"
    }


@pytest.mark.row("F-33")
def test_other_data_is_refused_by_its_file(project: Path) -> None:
    unended(trained())
    write_rows(Path("rows.csv"), seed=1)
    ran = command("train", "small.yaml", "--run", "one", "--resume")
    assert ran.code == 11
    assert "rows.csv" in ran.err.splitlines()[-1]
    assert "--set resume.data_changed=record" in ran.err
    assert state() == "interrupted"


def cut_short(rows: Path) -> None:
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-3]))


def grow(rows: Path) -> None:
    rows.write_text(rows.read_text() + "44,Bern,1.5,no\n")


def change_a_digit(rows: Path) -> None:
    rows.write_text(rows.read_text().replace("1", "2", 1))


def empty(rows: Path) -> None:
    rows.write_text("")


@pytest.mark.row("F-33")
@pytest.mark.parametrize(
    ("change", "code"),
    [(cut_short, 11), (grow, 11), (change_a_digit, 11), (empty, 2), (Path.unlink, 2)],
    ids=["cut short", "longer", "a digit", "empty", "gone"],
)
def test_a_file_that_changed_in_any_way_is_named(
    project: Path, change: Callable[[Path], None], code: int
) -> None:
    unended(trained())
    change(Path("rows.csv"))
    ran = command("train", "small.yaml", "--run", "one", "--resume")
    assert ran.code == code, ran.err
    assert "rows.csv" in ran.err
    assert state() == "interrupted"


@pytest.mark.row("F-33")
def test_other_data_is_recorded_where_that_is_allowed(project: Path) -> None:
    run = trained()
    version = read_json(run / "record.json")["data_version"]
    unended(run)
    write_rows(Path("rows.csv"), seed=1)
    words = ("train", "small.yaml", "--run", "one", "--resume")
    ran = command(*words, "--set", "resume.data_changed=record")
    assert ran.code in (0, 3), ran.err
    assert "the data has changed since the run was started: rows.csv" in ran.err
    assert read_json(run / "record.json")["data_version"] != version
    assert [event["kind"] for event in events_of_one("noted")] == [
        "cut",
        "data_changed",
        "not_exact",
    ]
    assert "all are grown again from the first" in ran.err


def test_a_named_run_begins_where_there_is_none_yet(project: Path) -> None:
    words = ("train", "small.yaml", "--resume", "--run", "job")
    first = command(*words)
    assert first.code in (0, 3), first.err
    assert "there is no run job yet: it begins" in first.err
    again = command(*words)
    assert again.code == first.code
    assert "job is finished: nothing to do" in again.err


@pytest.mark.torch
def test_a_named_network_begins_where_there_is_none_yet(project: Path) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK.replace("40", "1"))
    ran = command("train", "small.yaml", "--resume", "--run", "job")
    assert ran.code in (0, 3), ran.err
    assert "there is no run job yet: it begins" in ran.err


def test_there_is_nothing_to_resume(project: Path) -> None:
    ran = command("resume", "none")
    assert ran.code == 2
    assert "there is no run here" in ran.err
    assert not Path("runs").exists()


def test_a_run_stopped_before_its_plan_is_not_resumed(project: Path) -> None:
    run = trained()
    unended(run)
    (run / "plan.json").unlink()
    ran = command("train", "small.yaml", "--resume", "--run", "one")
    assert ran.code == 2
    assert "was stopped before it began" in ran.err


def test_the_states_that_are_listed(project: Path) -> None:
    run = trained()
    assert state() == "finished"
    record = read_json(run / "record.json")
    for written, listed in (("interrupted", "interrupted"), ("failed", "failed")):
        record["ending"]["state"] = written
        write_json(run / "record.json", record)
        assert state() == listed


# A network that is stopped by a signal, in a process of its own.


def weights(run: Path) -> str:
    return hash_file(run / "bundle" / "network.safetensors")


@pytest.mark.row("F-07")
@pytest.mark.torch
@pytest.mark.slow
def test_a_stopped_network_goes_on_to_the_same_bits(project: Path) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    # An override and a folder with a blank: the printed command must hold both.
    words = ["small.yaml", "--set", "model.dropout=0.2", "--runs", "my runs"]
    assert command("train", *words, "--run", "whole").code in (0, 3)
    steps = len(Path("my runs/whole/signals.jsonl").read_text().splitlines())
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    early, late = int(random.integers(2, 20)), int(random.integers(steps - 20, steps - 1))
    for step in (early, late):
        name = f"stopped-{step}"
        done = stopped_at(step, "train", *words, "--run", name)
        assert done.code == 75, f"step {step}: {done.err}"
        assert not done.out
        assert "stopped by SIGTERM" in done.err
        ending = read_json(Path("my runs") / name / "record.json")["ending"]
        assert (ending["state"], ending["exit_code"]) == ("interrupted", 75)
        printed = shlex.split(re.findall(r"^ +(trainwright train .*)$", done.err, re.M)[-1])
        ran = command(*printed[1:])
        assert ran.code in (0, 3), ran.err
        assert f"resumed   at step {step}, " in ran.err
        assert weights(Path("my runs") / name) == weights(Path("my runs/whole")), f"step {step}"
        signals = [Path("my runs", run, "signals.jsonl").read_text() for run in (name, "whole")]
        numbers = [[json.loads(line)["loss"] for line in text.splitlines()] for text in signals]
        assert numbers[0] == numbers[1]


@pytest.mark.row("F-07")
def test_a_stopped_boosting_can_be_resumed_too(project: Path, zygote: Zygote) -> None:
    done = zygote.run(("train", "small.yaml", "--run", "one"), project, fault="tree:3:term")
    assert done.code == 75, done.output
    assert state() == "interrupted"
    assert command("train", "small.yaml", "--run", "one", "--resume").code in (0, 3)
    assert trained_again() == weights_of_trees("one")


def trained_again() -> str:
    assert command("train", "small.yaml", "--run", "whole").code in (0, 3)
    return weights_of_trees("whole")


def weights_of_trees(run: str) -> str:
    (model,) = Path("runs", run, "bundle").glob("*.txt")
    return hash_file(model)


def test_a_run_goes_on_with_other_rows_and_what_was_decided_by_the_first_ones(
    tmp_path: Path,
) -> None:
    network = with_layers("[16, 8]") + "training: {num_epochs: 4, average: {kind: ema}}\n"
    for _ in project_in(tmp_path, network):
        trained()
        decay = read_json(Path("runs/one/plan.json"))["contract"]["training"]["average"]["decay"]
        unended(Path("runs/one"))
        write_rows(Path("rows.csv"), rows=360)
        again = ["train", "small.yaml", "--run", "one", "--resume"]
        assert command(*again).code == 11
        assert command(*again, "--set", "training.average.decay=0.5").code == 2
        again += ["--set", "resume.data_changed=record"]
        refused = command(*again)
        assert refused.code == 2
        assert "another value where the contract says auto" in refused.err
        for way in re.findall(r"fix: write --set (\S+) as well", refused.err):
            again += ["--set", way]
        assert f"training.average.decay={decay}" in again
        assert command(*again).code in (0, 3)
