"""A search: the same trials after kills and side by side, one judged winner, honest about luck."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from command import CONTRACT, NETWORK, PROCESS, command, project_in
from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.run_settings import Tune
from trainwright.core.files import read_json
from trainwright.evaluation.candidates.compare_candidates import ComparedRows
from trainwright.evaluation.candidates.selection_bias import judge_best
from trainwright.tune.proposals import search_method
from trainwright.tune.records import write_journal
from trainwright.tune.space import Space
from trainwright.tune.study import Trial
from trainwright.tune.study_folder import StudyFolder
from trainwright.tune.trial import Outcome

TREES = """\
tune:
  over:
    model.learning_rate: {low: 0.01, high: 0.5, scale: log}
    model.num_leaves: [2, 4, 8]
  trials: 6
"""
LINEAR = (
    *("--set", "model={kind: linear}"),
    *("--set", "tune.over={model.penalty: {low: 0.1, high: 10.0, scale: log}}"),
)
RATES = """\
tune:
  over:
    training.optimizer.learning_rate: {low: 1.0e-5, high: 1.0, scale: log}
  trials: 7
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT + TREES)


def trials_of(study: Path) -> dict[str, tuple[object, object]]:
    """Values that were tried, and the score, of every ended trial."""
    found = {}
    for path in sorted((study / "trials").glob("????.json")):
        asked = read_json(path.with_suffix(".asked.json"))
        found[path.stem] = (asked["params"], read_json(path)["value"])
    return found


def test_a_study_ends_with_one_judged_winner(project: Path) -> None:
    ran = command("tune", "small.yaml", "--json")
    assert ran.code in (0, 3), ran.err
    result = json.loads(ran.out)
    study = project / "runs" / result["study"]
    assert [trial["trial"] for trial in result["trials"]] == list(range(6))
    assert len(set(map(str, trials_of(study).values()))) == 6, "each tries other values"
    judged = list(study.rglob("evaluation.json"))
    assert [path.parent.name for path in judged] == [f"{result['winner']['trial']:04d}"]
    opened = list(study.rglob("predictions*"))
    assert all(path.parent == judged[0].parent for path in opened), "no other saw the test rows"
    assert (study / "trials.csv").read_text().count("\n") == 7
    journal = JournalStorage(JournalFileBackend(str(study / "optuna.journal")))
    noted = optuna.load_study(study_name=None, storage=journal)
    values = [trial.value for trial in noted.trials]
    assert values == [trial["value"] for trial in result["trials"]]


def test_a_killed_study_goes_on_with_the_same_trials(project: Path) -> None:
    settings = ("--set", "tune.parallel=2")
    assert command("tune", "small.yaml", "--study", "whole", *settings).code in (0, 3)
    words = [*PROCESS, "tune", "small.yaml", "--study", "killed", "--resume", *settings]
    for ended in (1, 3):
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while len(trials_of(project / "runs/killed")) < ended and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.wait()
    assert command("tune", "small.yaml", "--study", "killed", "--resume", *settings).code in (0, 3)
    assert trials_of(project / "runs/killed") == trials_of(project / "runs/whole")
    whole, killed = (read_json(project / f"runs/{name}/study.json") for name in ("whole", "killed"))
    assert killed["winner"] == whole["winner"]
    assert len(list((project / "runs/killed").rglob("evaluation.json"))) == 1


@pytest.mark.extended
def test_a_killed_trial_is_run_again(project: Path) -> None:
    assert command("tune", "small.yaml", "--study", "whole").code in (0, 3)
    words = [*PROCESS, "tune", "small.yaml", "--study", "killed"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    asked = project / "runs/killed/trials/0002.asked.json"
    while process.poll() is None and not (trial := _children(process.pid, asked)):
        time.sleep(0.005)
    os.kill(trial, signal.SIGKILL)
    said = process.communicate()[1]
    assert "the process of trial" in said
    assert trials_of(project / "runs/killed") == trials_of(project / "runs/whole")


def _children(driver: int, asked: Path) -> int:
    """The process of a trial, once it was asked for; 0 before."""
    if not asked.is_file():
        return 0
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.stdout.splitlines())}
    servers = [pid for pid, parent in parents.items() if parent == driver]
    return next((pid for pid, parent in parents.items() if parent in servers), 0)


@pytest.mark.extended
def test_trials_side_by_side_try_what_the_order_says(project: Path) -> None:
    for name in ("one", "other"):
        settings = ("--set", "tune.parallel=3", "--set", "tune.trials=8")
        assert command("tune", "small.yaml", "--study", name, *settings).code in (0, 3)
    assert trials_of(project / "runs/one") == trials_of(project / "runs/other")


def test_folds_and_seeds_score_a_trial_on_all_its_rows(project: Path) -> None:
    settings = ("tune.folds=3", "tune.seeds=2", "tune.trials=2")
    words = [word for setting in settings for word in ("--set", setting)]
    assert command("tune", "small.yaml", "--study", "folds", *words).code in (0, 3)
    trials = project / "runs/folds/trials"
    assert sorted(path.name for path in trials.glob("0001-*")) == [
        *(f"0001-fold-{fold}{end}" for fold in (1, 2, 3) for end in ("", "-seed-1"))
    ]
    assert len(np.load(trials / "0001.npy")) == 255, "training and validation rows, no test row"


@pytest.mark.torch
def test_a_trial_that_fails_does_not_end_the_study(project: Path) -> None:
    (project / "small.yaml").write_text(
        NETWORK + RATES.replace("low: 1.0e-5, high: 1.0, scale: log", "values: [0.01, 1.0e+30]")
    )
    ran = command("tune", "small.yaml", "--study", "failing", "--set", "tune.trials=3", "--json")
    states = {trial["state"] for trial in json.loads(ran.out)["trials"]}
    assert states == {"complete", "failed"}
    failed = next(t for t in json.loads(ran.out)["trials"] if t["state"] == "failed")
    assert failed["reason"]


@pytest.mark.extended
@pytest.mark.torch
@pytest.mark.parametrize("stop", ["median", "hyperband"])
def test_trials_are_pruned_and_a_killed_one_sees_the_same(stop: str, project: Path) -> None:
    (project / "small.yaml").write_text(NETWORK + RATES)
    given = (f"tune.stop={stop}", "training.num_epochs=9", "tune.method=random", "tune.trials=12")
    settings = [word for one in given for word in ("--set", one)]
    assert command("tune", "small.yaml", "--study", "whole", *settings).code in (0, 3)
    trials = project / "runs/whole/trials"
    states = [read_json(path)["state"] for path in sorted(trials.glob("????.json"))]
    assert "pruned" in states
    words = [*PROCESS, "tune", "small.yaml", "--study", "killed", "--resume", *settings]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while len(trials_of(project / "runs/killed")) < 7 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert command("tune", "small.yaml", "--study", "killed", "--resume", *settings).code in (0, 3)
    assert trials_of(project / "runs/killed") == trials_of(project / "runs/whole")


@pytest.mark.parametrize("model", [(), LINEAR], ids=["trees", "linear"])
def test_a_budget_is_that_of_the_whole_study(model: tuple[str, ...], project: Path) -> None:
    settings = ("--set", "budget.hours=0.000001", "--set", "tune.trials=50", *model)
    ran = command("tune", "small.yaml", "--study", "short", *settings)
    assert ran.code in (0, 3)
    assert "of 50 trials fit into the budget" in ran.err
    assert len(trials_of(project / "runs/short")) < 5


def test_a_wrong_path_is_named_with_its_line(project: Path) -> None:
    (project / "small.yaml").write_text(CONTRACT + TREES.replace("num_leaves", "num_leafs"))
    ran = command("tune", "small.yaml")
    assert ran.code == 2
    line = (project / "small.yaml").read_text().splitlines().index("    model.num_leafs: [2, 4, 8]")
    assert f"small.yaml:{line + 1}:" in ran.err
    assert "num_leaves" in ran.err
    assert not (project / "runs").exists()


def test_a_study_goes_on_only_as_it_was_asked(project: Path) -> None:
    assert command("tune", "small.yaml", "--study", "one", "--set", "tune.trials=2").code in (0, 3)
    ran = command("tune", "small.yaml", "--study", "one")
    assert (ran.code, "a study one already" in ran.err) == (2, True)
    ran = command("tune", "small.yaml", "--study", "one", "--resume", "--set", "seed=5")
    assert (ran.code, "was begun with another" in ran.err) == (2, True)
    ran = command("tune", "small.yaml", "--study", "one", "--resume", "--set", "tune.trials=4")
    assert (ran.code, "has opened the test rows" in ran.err) == (2, True)
    again = command("tune", "small.yaml", "--study", "one", "--resume", "--set", "tune.trials=2")
    assert again.code in (0, 3), again.err
    assert len(list((project / "runs/one").rglob("evaluation.json"))) == 1


def test_a_study_does_not_go_on_with_other_rows(project: Path) -> None:
    assert command("tune", "small.yaml", "--study", "one", "--set", "tune.trials=2").code in (0, 3)
    rows = project / "rows.csv"
    rows.write_text(rows.read_text().replace("Oslo", "Bonn"))
    before = (project / "runs/one/study.json").read_bytes()
    ran = command("tune", "small.yaml", "--study", "one", "--resume", "--set", "tune.trials=2")
    assert (ran.code, "the data of study one has changed" in ran.err) == (11, True), ran.err
    assert (project / "runs/one/study.json").read_bytes() == before


@pytest.mark.extended
def test_a_study_that_has_not_been_judged_may_have_more_trials(project: Path) -> None:
    words = [*PROCESS, "tune", "small.yaml", "--study", "one"]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while len(trials_of(project / "runs/one")) < 2 and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    before = trials_of(project / "runs/one")
    ran = command("tune", "small.yaml", "--study", "one", "--resume", "--set", "tune.trials=8")
    assert ran.code in (0, 3), ran.err
    after = trials_of(project / "runs/one")
    assert len(after) == 8
    assert {key: after[key] for key in before} == before


def test_a_study_killed_while_it_is_judged_keeps_its_winner(project: Path) -> None:
    words = ("tune", "small.yaml", "--study", "one", "--resume", "--set", "tune.trials=2")
    assert command(*words).code in (0, 3)
    study = project / "runs/one"
    chosen = read_json(study / "study.json")["winner"]["trial"]
    shutil.rmtree(study / f"trials/{chosen:04d}/bundle")
    (study / f"trials/{chosen:04d}/evaluation.json").unlink()
    more = command(*words[:-1], "tune.trials=4")
    assert (more.code, "has opened the test rows" in more.err) == (2, True)


def test_columns_may_be_searched_but_not_other_rows(project: Path) -> None:
    over = "tune: {over: {data.features.numeric: [none, standard]}, trials: 2}\n"
    (project / "small.yaml").write_text(CONTRACT + over)
    ran = command("tune", "small.yaml", "--json")
    assert ran.code in (0, 3), ran.err
    assert [trial["state"] for trial in json.loads(ran.out)["trials"]] == ["complete"] * 2


@pytest.mark.extended
@pytest.mark.parametrize("count", [12, 60])
def test_the_best_of_noise_is_not_claimed_and_a_gain_is(count: int) -> None:
    metric, claimed = Metric(name="roc_auc", resamples=400), 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        truth = draw.integers(0, 2, 300)
        rows = ComparedRows(truth, np.arange(300), 1)
        scores = {}
        for number in range(count):
            chance = draw.uniform(size=300)
            scores[str(number)] = np.stack([1 - chance, chance], axis=1)
        best = max(scores, key=lambda name: rows.value(scores[name], metric))
        found = judge_best(scores, rows, metric, seed, "0", best)
        claimed += found.p < 0.025
        assert found.worth < found.value
        assert judge_best(scores, rows, metric, seed, "0", "0").p > 0.5
        better = 0.4 * truth + 0.6 * scores["1"][:, 1]
        scores["better"] = np.stack([1 - better, better], axis=1)
        assert judge_best(scores, rows, metric, seed, "0", "better").p < 0.01
    assert claimed <= 4, "of 40, where one is expected"


def test_a_value_of_zero_is_one(project: Path) -> None:
    """One short tree gives every row the commoner class."""
    settings = ("metric={name: f1}", "tune.over={model.num_leaves: [2, 4]}", "tune.trials=2")
    small = ("model.max_trees=1", "model.learning_rate=0.001", "slices=[]")
    words = [word for one in (*settings, *small) for word in ("--set", one)]
    ran = command("tune", "small.yaml", "--json", *words)
    assert ran.code in (0, 3), ran.err
    result = json.loads(ran.out)
    assert {trial["value"] for trial in result["trials"]} == {0.0}
    assert result["winner"]["best_of_many"]["count"] == 2


def test_a_space_of_many_lists_is_not_counted() -> None:
    over = {f"model.a{number}": tuple(range(10)) for number in range(12)}
    space = Space.of(Tune(over=over, trials=5))
    assert space.count(5) == 5
    assert search_method(Tune(over=over, trials=5), space) == "tpe"


def test_the_journal_has_pruned_and_failed_trials_as_such(tmp_path: Path) -> None:
    space = Space.of(Tune(over={"model.a": (1, 2)}))
    outcomes = (
        Outcome("complete", 0.5, ""),
        Outcome("pruned", 0.4, "", {1: 0.3, 12: 0.4}),
        Outcome("failed", None, "no number"),
    )
    trials = [Trial(at, {"model.a": 1}, outcome) for at, outcome in enumerate(outcomes)]
    write_journal(StudyFolder(tmp_path), space, trials, "max")
    journal = JournalStorage(JournalFileBackend(str(tmp_path / "optuna.journal")))
    noted = optuna.load_study(study_name=None, storage=journal).trials
    assert [trial.state.name for trial in noted] == ["COMPLETE", "PRUNED", "FAIL"]
    assert noted[1].intermediate_values == {1: 0.3, 12: 0.4}
