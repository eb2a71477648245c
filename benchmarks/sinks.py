"""The time of a step beside a tracker in every state, and what arrives after an outage.

A network is trained on the census example in a process of its own, with no sink, and with MLflow in
each state of a server: up, down, 5 s slower with each answer, answering 500, with a full disk, and
accepting without an answer. The states take turns, in the other order every second round. The time
of a step is that from the first step to the last over their number, validations and checkpoints
included, and a ratio the median of those to the run without a sink in the same round. Then a server
comes back after an outage that took the whole training, is killed while the run is sent, and comes
back again: every number of every step is asked for, and compared with the run folder, as is what
TensorBoard's reader finds. Servers run at the lowest priority, as they stand for other machines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from page import goal, write_section
from trackers.mlflow_server import MlflowServer, mlflow_server
from trackers.stands import slow_server, stand_in

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = ROOT / "examples" / "income" / "contract.yaml"
COMMAND = (sys.executable, "-m", "trainwright")
NONE, UP, SLOW = "no sink", "up", "slow"
STATES = (NONE, UP, "down", SLOW, "failing", "full", "never answers")
ROUNDS, STEPS, SLOW_SECONDS, MOST, POINTS = 5, 9_100, 5.0, 1.02, 100_000
KILL_SECONDS = 6.0
_MET = (0, 3)


@final
@dataclass(frozen=True)
class Arrived:
    """What readers find of a run: numbers sent, those that are missing or there more than once, and
    those that differ from the run folder, of MLflow and of TensorBoard."""

    points: int
    not_once: int
    different: int
    shown: int
    shown_different: int


def train(runs: Path, name: str, steps: int, address: str) -> float:
    """Seconds of a step of a training with these steps, sent to `address` if there is one."""
    settings = [
        "model.kind=mlp",
        "model.hidden=[64, 32]",
        "training.early_stopping=off",
        f"training.num_steps={steps}",
        "metric.resamples=100",
        "tracking.drain_seconds=0",
    ]
    if address:
        settings += ["tracking.sinks=[mlflow]", f"tracking.mlflow_uri={address}"]
    words = [word for setting in settings for word in ("--set", setting)]
    command = [*COMMAND, "train", str(CONTRACT), "--runs", str(runs), "--run", name, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=_one_thread())
    if done.returncode not in _MET:
        raise RuntimeError(done.stderr)
    times = [row["time"] for row in read_rows(runs / name)]
    return (times[-1] - times[0]) / (len(times) - 1)


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def read_rows(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "signals.jsonl").read_text().splitlines()]


@contextmanager
def addresses(folder: Path) -> Iterator[Mapping[str, str]]:
    """A server in each state, as long as the block."""
    with ExitStack() as stack:
        server = stack.enter_context(mlflow_server(f"sqlite:///{folder}/up.db", folder))
        found = {NONE: "", UP: server.address}
        found[SLOW] = stack.enter_context(slow_server(server.port, SLOW_SECONDS))
        for state in STATES:
            if state not in found:
                found[state] = stack.enter_context(stand_in(state))
        yield found


def measure_steps(rounds: int, steps: int) -> Mapping[str, Sequence[float]]:
    """Seconds of a step in each state, in every round."""
    took: dict[str, list[float]] = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory() as name, addresses(Path(name)) as found:
        for number in range(rounds):
            for state in STATES if number % 2 == 0 else reversed(STATES):
                run = f"{state.replace(' ', '-')}-{number}"
                took[state].append(train(Path(name), run, steps, found[state]))
                print(f"round {number + 1}: {state} {took[state][-1] * 1e3:.3f} ms", flush=True)
    return took


def send_after_outage(steps: int) -> Arrived:
    """Train while the server is down, and send the run to one that dies in between."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with mlflow_server(f"sqlite:///{folder}/store.db", folder) as server:
            server.kill()
            train(folder, "run", steps, server.address)
            server.start()
            dying = threading.Timer(KILL_SECONDS, server.kill)
            dying.start()
            synchronise(folder, "mlflow")
            dying.join()
            server.kill()
            server.start()
            if synchronise(folder, "mlflow"):
                raise RuntimeError("the run is not sent")
            if synchronise(folder, "tensorboard"):
                raise RuntimeError("the event file is not written")
            return compare(folder / "run", server)


def synchronise(runs: Path, kind: str) -> int:
    """Exit code of `runs sync`."""
    words = (*COMMAND, "runs", "sync", "run", "--runs", str(runs), "--sink", kind)
    return subprocess.run(words, capture_output=True).returncode


def compare(run: Path, server: MlflowServer) -> Arrived:
    """Ask MLflow's client and TensorBoard's reader for every number of every step."""
    from mlflow import MlflowClient
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = read_rows(run)
    id_there = json.loads((run / "sinks" / "mlflow.json").read_text())["run"]
    client = MlflowClient(server.address)
    reader = EventAccumulator(str(run / "tensorboard"), {"scalars": 0})
    reader.Reload()
    points = not_once = different = shown = shown_different = 0
    for name in sorted(rows[0].keys() - {"step", "time"}):
        wanted = Counter((row["step"], row[name], round(1000 * row["time"])) for row in rows)
        taken = [(p.step, p.value, p.timestamp) for p in client.get_metric_history(id_there, name)]
        points += len(taken)
        times = Counter(step for step, _, _ in taken)
        not_once += sum(times[row["step"]] != 1 for row in rows)
        different += (Counter(taken) - wanted).total()
        scalars = [(event.step, event.value) for event in reader.Scalars(name)]
        shown += len(scalars)
        as_kept = [(row["step"], float(np.float32(row[name]))) for row in rows]
        shown_different += (Counter(scalars) - Counter(as_kept)).total()
        shown_different += (Counter(as_kept) - Counter(scalars)).total()
    return Arrived(points, not_once, different, shown, shown_different)


def describe(took: Mapping[str, Sequence[float]], arrived: Arrived) -> str:
    """A row for each state, and what arrived."""
    lines = [
        "| server | ms a step, least to median | of no sink | goal |",
        "| --- | --- | --- | --- |",
    ]
    for state, seconds in took.items():
        ratios = [ours / none for ours, none in zip(seconds, took[NONE], strict=True)]
        ratio = statistics.median(ratios)
        shown = f"{min(seconds) * 1e3:.3f} to {statistics.median(seconds) * 1e3:.3f}"
        wanted = "" if state == NONE else goal(f"at most {MOST}", ratio <= MOST)
        lines.append(f"| {state} | {shown} | {ratio:.3f} | {wanted} |")
    once = goal("all once", arrived.not_once == 0 and arrived.points >= POINTS)
    equal = goal("all equal", arrived.different == arrived.shown_different == 0)
    lines.append(
        f"\nAfter the outage MLflow's client finds {arrived.points:,} numbers of steps; "
        f"{arrived.not_once:,} are missing or there more than once (goal: {once}), and "
        f"{arrived.different:,} differ in value or time from the run folder. TensorBoard's reader "
        f"finds {arrived.shown:,}, of which {arrived.shown_different:,} differ in fp32, the format "
        f"of its scalars (goal: {equal})."
    )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    started = time.monotonic()
    arrived = send_after_outage(given.steps)
    took = measure_steps(given.rounds, given.steps)
    text = describe(took, arrived)
    print(f"{text}\n\n{time.monotonic() - started:.0f} s")
    if given.write:
        about = " ".join((__doc__ or "").splitlines()[2:]).strip()
        packages = ["mlflow-skinny", "tensorboard", "torch"]
        write_section("sinks", "Trackers", f"{about}\n\n{text}", packages)


if __name__ == "__main__":
    main()
