"""A search: what it repeats after kills, what it costs, and what its winners are worth.

Parts, each a table of docs/benchmarks.md: `kills` (a study whose driver and trials are killed by
SIGKILL beside one that is not), `cost` (seconds of a trial beside `tw.fit` by hand of the same
values in one process; a study of 20 trials beside 20 `trainwright train`), `pair` (two trials at a
time beside one), `null` (studies of shuffled labels: how often a gain over the contract as written
is claimed) and `real` (test metric of the kept trial, beside the contract as written and the
validation score that it was kept for; plain Optuna by hand with as many trials).

python benchmarks/tune.py [--parts kills cost pair null real] [--write]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import trainwright as tw
from page import write_section
from real import FOLDER
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen
from trainwright.tune.run_study import StudyResult, run_study
from trainwright.tune.study_folder import StudyFolder

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TELCO = FOLDER / "telco-churn" / "Telco-Customer-Churn.csv"
INCOME = EXAMPLES / "income" / "contract.yaml"
COMMAND = Path(sys.executable).with_name("trainwright")
TREES = {
    "model.learning_rate": {"low": 0.01, "high": 0.3, "scale": "log"},
    "model.num_leaves": {"low": 4, "high": 64, "scale": "log"},
    "model.feature_fraction": {"low": 0.4, "high": 1.0},
    "model.lambda_l2": [0.0, 1.0, 10.0],
}
KILLS, NULLS, TRIALS = 20, 100, 12


def write_contract(folder: Path, data: dict[str, Any], metric: str, **tuned: Any) -> Path:
    """A contract with trees and their search."""
    document = {
        "name": "searched",
        "data": data,
        "model": {"kind": "boosting"},
        "metric": {"name": metric},
        "tune": {"over": TREES, "trials": TRIALS, "choice": "best", **tuned},
    }
    path = folder / "contract.yaml"
    path.write_text(json.dumps(document))
    return path


def telco(folder: Path, **tuned: Any) -> Path:
    """Churn of customers."""
    data = {"path": str(TELCO), "target": "Churn", "exclude": ["customerID"]}
    return write_contract(folder, data, "roc_auc", **tuned)


def search(contract: Path, runs: Path, *overrides: str) -> StudyResult:
    """A study in this process, without a word."""
    return run_study(Request(contract, overrides, runs), StreamScreen(io.StringIO()))


def row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    """The first two lines of a table."""
    return f"{row(*cells)}\n{row(*('---' for _ in cells))}"


def trials_of(study: Path) -> dict[int, tuple[object, object]]:
    """Values tried and reached by the ended trials."""
    folder, found = StudyFolder(study), {}
    for path in sorted(folder.trials.glob("????.json")):
        files = folder.files(int(path.stem))
        asked = json.loads(files.path(".asked.json").read_text())
        outcome = files.outcome()
        found[files.number] = (asked["params"], outcome and outcome.value)
    return found


def processes_of(driver: int) -> list[int]:
    """The trials that run below a driver: children of the server that it started."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    parents = dict(zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True))
    servers = [pid for pid, parent in parents.items() if parent == driver]
    return [pid for pid, parent in parents.items() if parent in servers]


def kill_often(contract: Path, runs: Path, kills: int, seed: int) -> tuple[int, int]:
    """Run a study to its end through kills of the driver, or of a trial; how many of each. A trial
    whose process dies five times counts as failed, so the same one is killed once."""
    draw, driver_kills, trial_kills, killed_at = random.Random(seed), 0, 0, -1
    while True:
        words = [COMMAND, "tune", contract, "--runs", runs, "--study", "killed", "--resume"]
        driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while driver.poll() is None and driver_kills + trial_kills < kills:
            while driver.poll() is None and not processes_of(driver.pid):
                time.sleep(0.02)
            time.sleep(draw.uniform(0.0, 1.0))
            trials = processes_of(driver.pid)
            ended = len(trials_of(runs / "killed"))
            if trials and ended > killed_at and draw.random() < 0.5:
                os.kill(draw.choice(trials), signal.SIGKILL)
                trial_kills, killed_at = trial_kills + 1, ended
                continue
            if driver.poll() is None:
                driver.kill()
                driver_kills += 1
                break
        if driver.wait() in (0, 3):
            return driver_kills, trial_kills


def measure_kills(folder: Path) -> Iterator[str]:
    """A killed study beside one that ran through."""
    yield head("trials at a time", "kills of driver, of trial", "trials", "the same", "judged")
    for parallel in (1, 2):
        place = folder / f"kills-{parallel}"
        place.mkdir()
        contract = telco(place, parallel=parallel)
        whole = search(contract, place / "whole")
        kills = kill_often(contract, place / "runs", KILLS, parallel)
        found = trials_of(place / "runs" / "killed")
        same = "all" if found == trials_of(whole.folder.path) else "no"
        judged = len(list((place / "runs").rglob("evaluation.json")))
        yield row(parallel, f"{kills[0]}, {kills[1]}", len(found), same, judged)


def timed(work: Callable[[], object]) -> float:
    """Seconds of a piece of work."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def settings_of(result: StudyResult) -> Iterator[list[str]]:
    """The overrides of each trial but the first, which is the contract as written."""
    for trial in result.trials[1:]:
        yield [f"{path}={value}" for path, value in trial.params.items()]


def measure_cost(folder: Path) -> Iterator[str]:
    """Seconds of a trial and of a study."""
    yield head("what", "a search", "compared with", "ratio or difference")
    (folder / "cost").mkdir()
    contract = telco(folder / "cost", trials=20)
    search(contract, folder / "warm", "tune.trials=2")
    result = search(contract, folder / "study")
    begun = [path.stat().st_mtime for path in sorted(result.folder.trials.glob("????.asked.json"))]
    ended = [path.stat().st_mtime for path in sorted(result.folder.trials.glob("????.json"))]
    searched = statistics.median(b - a for a, b in zip(begun[1:], ended[1:], strict=True))
    data, by_hand = tw.prepare(contract, overrides=["tune=off"]), list[float]()
    for overrides in settings_of(result):
        started = time.perf_counter()
        assert tw.fit(data, overrides=overrides, runs=folder / "hand", progress=False).score
        by_hand.append(time.perf_counter() - started)
    hand = statistics.median(by_hand)
    compared = f"`tw.fit` by hand {hand:.2f} s"
    yield row("a trial, median", f"{searched:.2f} s", compared, f"{searched - hand:+.2f} s")
    yield measure_commands(folder)


def measure_pair(folder: Path) -> Iterator[str]:
    """Two trials at a time against one."""
    yield head("trials", "one at a time", "two at a time", "ratio")
    contract = telco(folder, trials=24)
    search(contract, folder / "warm", "tune.trials=2")
    alone = timed(lambda: search(contract, folder / "one"))
    pair = timed(lambda: search(contract, folder / "two", "tune.parallel=2"))
    yield row(24, f"{alone:.1f} s", f"{pair:.1f} s", f"{pair / alone:.2f}")


def measure_commands(folder: Path) -> str:
    """A study of 20 trials of the income example, and a command for each of the same trainings."""
    words = [COMMAND, "tune", INCOME, "--runs", folder / "studies", "--json"]
    words += ["--set", "tune.trials=20", "--set", f"tune.over={json.dumps(TREES)}"]
    started = time.perf_counter()
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    study = time.perf_counter() - started
    commands = 0.0
    for trial in json.loads(ran.stdout)["trials"]:
        words = [COMMAND, "train", INCOME, "--runs", folder / "runs"]
        for path, value in trial["params"].items() if trial["trial"] else ():
            words += ["--set", f"{path}={value}"]
        started = time.perf_counter()
        subprocess.run(words, capture_output=True, check=False)
        commands += time.perf_counter() - started
    compared = f"20 `trainwright train` of the same values {commands:.0f} s"
    return row("income, 20 trials", f"{study:.0f} s", compared, f"{study / commands:.2f}")


def measure_null(folder: Path) -> Iterator[str]:
    """Studies of labels that nothing explains."""
    yield head(
        "studies",
        "gain claimed",
        "best above the contract as written",
        "AUC of the best, validation",
        "expected of other rows",
        "AUC on the test rows",
    )
    frame = pl.read_csv(TELCO, infer_schema=False)[:3000]
    claimed = above = 0
    values, worths, tests = list[float](), list[float](), list[float]()
    for number in range(NULLS):
        place = folder / f"null-{number}"
        place.mkdir()
        shuffled = np.random.default_rng(number).permutation(frame["Churn"].to_numpy())
        frame.with_columns(Churn=pl.Series(shuffled)).write_csv(place / "rows.csv")
        data = {"path": "rows.csv", "target": "Churn", "exclude": ["customerID"]}
        contract = write_contract(place, data, "roc_auc", trials=10)
        result = search(contract, place / "runs", f"seed={number}", f"split_seed={number}")
        claimed += result.winner.is_claimed
        above += result.winner.best.number != 0
        values.append(result.winner.of_many.value)
        worths.append(result.winner.of_many.worth)
        tests.append(result.result.evaluation.metrics["roc_auc"].value)
        print(number, claimed, above, file=sys.stderr)
    means = [f"{statistics.mean(each):.3f}" for each in (values, worths, tests)]
    yield row(NULLS, claimed, above, *means)


def measure_real(folder: Path) -> Iterator[str]:
    """Winners on their test rows."""
    yield head(
        "set",
        "metric",
        "validation of the kept",
        "expected of other rows",
        "test (95%)",
        "test as written (95%)",
        "gain claimed",
        "test of plain Optuna",
    )
    houses = FOLDER / "california-housing" / "housing.csv"
    for name, data, metric in (
        ("telco", {"path": str(TELCO), "target": "Churn", "exclude": ["customerID"]}, "roc_auc"),
        ("california", {"path": str(houses), "target": "median_house_value"}, "rmse"),
    ):
        place = folder / f"real-{name}"
        place.mkdir()
        contract = write_contract(place, data, metric, trials=30)
        result = search(contract, place / "runs")
        plain = tw.train(contract, overrides=["tune=off"], runs=place / "plain")
        test, written = (one.evaluation.metrics[metric] for one in (result.result, plain))
        by_hand = optuna_by_hand(contract, place / "hand", metric, 29)
        of_many, kept = result.winner.of_many, result.winner
        yield row(
            name,
            metric,
            f"{kept.trial.outcome.value:.5g}",
            f"{of_many.worth:.5g}",
            f"{test.value:.5g} ({test.bounds})",
            f"{written.value:.5g} ({written.bounds})",
            "yes" if kept.is_claimed else f"no (p {of_many.p:.3f})",
            f"{by_hand:.5g}",
        )


def optuna_by_hand(contract: Path, runs: Path, metric: str, trials: int) -> float:
    """The test metric of the best of as many trials by a loop around `tw.fit`."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    data = tw.prepare(contract, overrides=["tune=off"])
    direction = "minimize" if metric == "rmse" else "maximize"
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))
    fits = {}

    def objective(trial: optuna.Trial) -> float:
        overrides = [
            f"model.learning_rate={trial.suggest_float('rate', 0.01, 0.3, log=True)}",
            f"model.num_leaves={trial.suggest_int('leaves', 4, 64, log=True)}",
            f"model.feature_fraction={trial.suggest_float('fraction', 0.4, 1.0)}",
            f"model.lambda_l2={trial.suggest_categorical('l2', [0.0, 1.0, 10.0])}",
        ]
        fits[trial.number] = tw.fit(data, overrides=overrides, runs=runs, progress=False)
        return fits[trial.number].score

    study.optimize(objective, n_trials=trials)
    judged = tw.judge(fits[study.best_trial.number], progress=False)
    return float(judged.evaluation.metrics[metric].value)


PARTS = {
    "kills": measure_kills,
    "cost": measure_cost,
    "pair": measure_pair,
    "null": measure_null,
    "real": measure_real,
}


def main(parts: Sequence[str], *, write: bool) -> None:
    """Measure, print, and write a section for each part."""
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for line in PARTS[part](Path(folder)):
                print(line, flush=True)
                lines.append(line)
        if write:
            said = " ".join((PARTS[part].__doc__ or "").split())
            text = f"{said}\n\n" + "\n".join(lines)
            write_section(f"tune_{part}", f"A search: {part}", text, ["optuna", "lightgbm"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--write", action="store_true", help="write sections of the page")
    given = parser.parse_args()
    main(given.parts, write=given.write)
