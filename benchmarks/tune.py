"""A search: what it repeats after kills, what it costs, and what its winners are worth.

Parts, each a table of docs/benchmarks.md: `kills` (studies whose driver and trials are killed by
SIGKILL beside ones that are not), `cost` (seconds of a trial beside `tw.fit` by hand of the same
values in one process; a study of 20 trials beside 20 `trainwright train`), `pair` (two trials at a
time beside one), `null` (studies of shuffled labels: how often a gain over the contract as written
is claimed) and `real` (the kept trial on the test rows, beside the contract as written, Optuna by
hand and AutoGluon).

With `--keep FOLDER` what is measured stays there and is read again, so that `--most N` may measure
N pieces at a time.

python benchmarks/tune.py [--parts kills cost pair null real] [--write]
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
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
from tunes.kept import Kept, Unfinished
from tunes.winners import SETS, TREES, measure_winners

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TELCO = FOLDER / "telco-churn" / "Telco-Customer-Churn.csv"
INCOME = EXAMPLES / "income" / "contract.yaml"
COMMAND = Path(sys.executable).with_name("trainwright")
KILLS, NULLS, TRIALS = 12, 100, 12


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


def measure_kills(kept: Kept) -> Iterator[str]:
    """A killed study beside one that ran through."""
    yield head("trials at a time", "kills of driver, of trial", "trials", "the same", "judged")
    for parallel in (1, 2):
        found = kept.read_or(f"kills-{parallel}", partial(compare_killed, parallel))
        same = "values and winner" if found["same"] else "no"
        yield row(
            parallel, "{}, {}".format(*found["kills"]), found["trials"], same, found["judged"]
        )


def compare_killed(parallel: int) -> dict[str, Any]:
    """A study with kills beside one without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contract = telco(folder, parallel=parallel)
        whole = search(contract, folder / "whole").folder
        kills = kill_often(contract, folder / "runs", KILLS, parallel)
        killed = StudyFolder(folder / "runs" / "killed")
        found = trials_of(killed.path)
        return {
            "kills": kills,
            "trials": len(found),
            "same": found == trials_of(whole.path)
            and killed.read()["winner"] == whole.read()["winner"],
            "judged": len(list(killed.path.rglob("evaluation.json"))),
        }


def timed(work: Callable[[], object]) -> float:
    """Seconds of a piece of work."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def settings_of(result: StudyResult) -> Iterator[list[str]]:
    """The overrides of each trial but the first, which is the contract as written."""
    for trial in result.trials[1:]:
        yield [f"{path}={value}" for path, value in trial.params.items()]


def measure_cost(kept: Kept) -> Iterator[str]:
    """Seconds of a trial and of a study."""
    yield head("what", "a search", "compared with", "ratio or difference")
    trial = kept.read_or("cost-trial", measure_trial)
    ours, hand = trial["search"], trial["hand"]
    compared = f"`tw.fit` by hand {hand:.2f} s"
    yield row("a trial, median", f"{ours:.2f} s", compared, f"{ours - hand:+.2f} s")
    study = kept.read_or("cost-commands", measure_commands)
    ours, commands = study["search"], study["commands"]
    compared = f"20 `trainwright train` of the same values {commands:.0f} s"
    yield row("income, 20 trials", f"{ours:.0f} s", compared, f"{ours / commands:.2f}")


def measure_trial() -> dict[str, float]:
    """Seconds of a trial, and of a training by hand in one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contract = telco(folder, trials=20)
        search(contract, folder / "warm", "tune.trials=2")
        result = search(contract, folder / "study")
        asked, written = (
            [path.stat().st_mtime for path in sorted(result.folder.trials.glob(pattern))]
            for pattern in ("????.asked.json", "????.json")
        )
        data, by_hand = tw.prepare(contract, overrides=["tune=off"]), list[float]()
        for overrides in settings_of(result):
            started = time.perf_counter()
            assert tw.fit(data, overrides=overrides, runs=folder / "hand", progress=False).score
            by_hand.append(time.perf_counter() - started)
    ours = [end - begin for begin, end in zip(asked[1:], written[1:], strict=True)]
    return {"search": statistics.median(ours), "hand": statistics.median(by_hand)}


def measure_pair(kept: Kept) -> Iterator[str]:
    """Two trials at a time against one."""
    yield head("trials", "one at a time", "two at a time", "ratio")
    contract = telco(kept.folder, trials=24)
    search(contract, kept.folder / "warm", "tune.trials=2")
    alone = timed(lambda: search(contract, kept.folder / "one"))
    pair = timed(lambda: search(contract, kept.folder / "two", "tune.parallel=2"))
    yield row(24, f"{alone:.1f} s", f"{pair:.1f} s", f"{pair / alone:.2f}")


def measure_commands() -> dict[str, float]:
    """A study of 20 trials of the income example, and a command for each of the same trainings."""
    with tempfile.TemporaryDirectory() as folder:
        words = [COMMAND, "tune", INCOME, "--runs", f"{folder}/studies", "--json"]
        words += ["--set", "tune.trials=20", "--set", f"tune.over={json.dumps(TREES)}"]
        started = time.perf_counter()
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        study = time.perf_counter() - started
        commands = 0.0
        for trial in json.loads(ran.stdout)["trials"]:
            words = [COMMAND, "train", INCOME, "--runs", f"{folder}/runs"]
            for path, value in trial["params"].items() if trial["trial"] else ():
                words += ["--set", f"{path}={value}"]
            started = time.perf_counter()
            subprocess.run(words, capture_output=True, check=False)
            commands += time.perf_counter() - started
    return {"search": study, "commands": commands}


def measure_null(kept: Kept) -> Iterator[str]:
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
    studies = [
        kept.read_or(f"null-{number}", partial(run_null, frame, number)) for number in range(NULLS)
    ]
    claimed, above = (sum(study[name] for study in studies) for name in ("claimed", "above"))
    means = [
        statistics.mean(study[name] for study in studies) for name in ("best", "worth", "test")
    ]
    yield row(NULLS, claimed, above, *(f"{mean:.3f}" for mean in means))


def run_null(frame: pl.DataFrame, number: int) -> dict[str, float]:
    """One study of shuffled labels."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shuffled = np.random.default_rng(number).permutation(frame["Churn"].to_numpy())
        frame.with_columns(Churn=pl.Series(shuffled)).write_csv(folder / "rows.csv")
        data = {"path": "rows.csv", "target": "Churn", "exclude": ["customerID"]}
        contract = write_contract(folder, data, "roc_auc", trials=10)
        result = search(contract, folder / "runs", f"seed={number}", f"split_seed={number}")
    winner = result.winner
    return {
        "claimed": winner.is_claimed,
        "above": winner.best.number != 0,
        "best": winner.of_many.value,
        "worth": winner.of_many.worth,
        "test": result.result.evaluation.metrics["roc_auc"].value,
    }


def measure_real(kept: Kept) -> Iterator[str]:
    """Winners on their test rows, with 90 seconds for each search, judging not counted. Optuna by
    hand is a loop around `tw.fit` with its TPE sampler; AutoGluon searches the same kind of model, draws at random, and
    keeps an ensemble of what it tried. Differences are those of the search on the same test rows:
    its figure minus that of the line."""
    yield head(
        "set, metric",
        "tool",
        "trials",
        "seconds",
        "validation",
        "test (95%)",
        "a search minus it (95%)",
    )
    for real in SETS:
        for cells in measure_winners(real, kept, search):
            yield row(*cells)


PARTS = {
    "kills": measure_kills,
    "cost": measure_cost,
    "pair": measure_pair,
    "null": measure_null,
    "real": measure_real,
}


def main(given: argparse.Namespace) -> None:
    """Measure, print, and write a section for each part."""
    for part in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            kept, lines = Kept(given.keep or Path(folder), given.most), []
            for line in PARTS[part](kept):
                print(line, flush=True)
                lines.append(line)
        if given.write:
            said = " ".join((PARTS[part].__doc__ or "").split())
            text = f"{said}\n\n" + "\n".join(lines)
            write_section(f"tune_{part}", f"A search: {part}", text, ["optuna", "lightgbm"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--write", action="store_true", help="write sections of the page")
    parser.add_argument("--keep", type=Path, help="folder for the pieces that are measured")
    parser.add_argument("--most", type=int, default=math.inf, help="pieces to measure this time")
    try:
        main(parser.parse_args())
    except Unfinished:
        print("unfinished: again for the rest")
