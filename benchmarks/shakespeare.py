"""A small GPT on tiny Shakespeare: our example against the CPU recipe that nanoGPT publishes.

Both are whole processes, started in turns on the same cores with the same number of threads: from
the start of the interpreter to its end, evaluation included. Ours reads and encodes the text, and
also fits the baselines, judges the model and writes the report; nanoGPT's text is encoded before.
Both train on the first nine tenths of the text. The loss is that of the last tenth, in windows of
64 characters side by side, computed for both afterwards. nanoGPT's own estimate, of which that is
the expectation, is printed too: it comes from 20 random batches and moves by about 0.02.

python benchmarks/shakespeare.py [--data input.txt] [--nanogpt CHECKOUT] [--threads 2] [--rounds 1]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pickle
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, final

import numpy as np
import torch

import nanogpt
from page import goal, write_section
from real import FOLDER

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = ROOT / "examples" / "shakespeare" / "contract.yaml"
RECIPE = Path(nanogpt.__file__)
DATA = FOLDER / "tinyshakespeare" / "input.txt"
GOAL_RATIO, GOAL_LOSS = 0.5, 1.88
_VERDICT_MISSED = 3
_ARGUMENTS = (
    "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 "
    "--log_interval=1 --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 "
    "--max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)


class Took(NamedTuple):
    """What a process took: wall time, and processor time over all its threads."""

    wall_seconds: float
    cpu_seconds: float


@final
@dataclass(frozen=True)
class Finished:
    """A side that came to its end: `loss` on the last tenth, and what it says itself."""

    took: Took
    loss: float
    told: str


def run_timed(command: Sequence[str], folder: Path, threads: int) -> tuple[Took, str]:
    """Run a process to its end; what it took and what it wrote to stdout.

    What it keeps of the data it keeps in `folder`, so a new folder finds nothing of an earlier run.
    The verdict of ours may be that the contract is not met, which is no failure here.
    """
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ},
        "OMP_NUM_THREADS": str(threads),
        "TRAINWRIGHT_CACHE": str(folder / "cache"),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, _VERDICT_MISSED):
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, cpu), done.stdout


def run_ours(data: Path, folder: Path, threads: int, overrides: Sequence[str] = ()) -> Finished:
    """`trainwright train` of the example. The validation and the test part are the two halves of
    the last tenth."""
    program = "import sys; from trainwright.cli.main import main; sys.exit(main())"
    words = ["train", str(CONTRACT), "--runs", str(folder), "--run", "ours", "--json"]
    for override in (f"data.path={data.resolve()}", *overrides):
        words += ["--set", override]
    took, out = run_timed([sys.executable, "-c", program, *words], folder, threads)
    test = json.loads(out)["metrics"]["nats_per_token"]["value"]
    lines = (folder / "ours" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    values = [json.loads(line)["values"] for line in lines if '"validated"' in line]
    validation = values[-1]["val_nats_per_token"]
    told = f"validation part {validation:.4f}, test part {test:.4f}"
    return Finished(took, (validation + test) / 2, told)


def write_splits(data: Path, folder: Path) -> int:
    """The text as nanoGPT wants it: two files of uint16, and the number of characters."""
    text = data.read_text(encoding="utf-8")
    codes = {character: code for code, character in enumerate(sorted(set(text)))}
    tokens = np.array([codes[character] for character in text], dtype=np.uint16)
    end = int(len(tokens) * 0.9)
    tokens[:end].tofile(folder / "train.bin")
    tokens[end:].tofile(folder / "val.bin")
    return len(codes)


def run_recreated(data: Path, folder: Path, threads: int, steps: int = 2000) -> Finished:
    """The recipe as benchmarks/nanogpt.py has it."""
    size = write_splits(data, folder)
    files = [str(folder / name) for name in ("train.bin", "val.bin", "")]
    words = [*files, "--vocabulary", str(size), "--steps", str(steps)]
    took, _ = run_timed([sys.executable, str(RECIPE), *words], folder, threads)
    model = nanogpt.make_model(size)
    held = torch.load(folder / "checkpoint.pt", weights_only=True)
    model.load_state_dict(held["model"])
    estimates = json.loads((folder / "estimates.json").read_text(encoding="utf-8"))
    told = f"its own estimate {min(of_val for _, _, of_val in estimates):.4f}"
    return Finished(took, nanogpt.exact_loss(model, folder / "val.bin"), told)


def run_checkout(checkout: Path, data: Path, folder: Path, threads: int) -> Finished:
    """nanoGPT itself, in a copy of the checkout, with the words of its README."""
    copy = folder / "nanogpt"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "out*"))
    parts = copy / "data" / "shakespeare_char"
    size = write_splits(data, parts)
    # nanoGPT reads the size of the vocabulary from a pickle, and that is all it needs of it.
    (parts / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": size}))
    took, out = run_timed([sys.executable, "train.py", *_ARGUMENTS.split()], copy, threads)
    held = torch.load(copy / "out-shakespeare-char" / "ckpt.pt", weights_only=True)
    theirs = _module(copy / "model.py")
    model = theirs.GPT(theirs.GPTConfig(**held["model_args"]))
    model.load_state_dict(held["model"])
    estimates = [float(found) for found in re.findall(r"val loss ([0-9.]+)", out)]
    loss = nanogpt.exact_loss(model, parts / "val.bin")
    return Finished(took, loss, f"its own estimate {min(estimates):.4f}")


def measure(sides: Mapping[str, Callable[[Path], Finished]], rounds: int) -> list[dict[str, Any]]:
    """Each side once a round, in turns, each in a folder of its own."""
    found: list[dict[str, Any]] = []
    for number in range(rounds):
        for name, run in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                done = run(Path(folder))
            row = {"side": name, "round": number + 1, **done.took._asdict()}
            found.append({**row, "loss": done.loss, "told": done.told})
            print(_line(found[-1]), file=sys.stderr)
    return found


def ratio_of(rows: Sequence[Mapping[str, Any]], unit: str) -> float:
    """The median over the rounds of ours over nanoGPT."""
    by_side = {
        side: [row[unit] for row in rows if row["side"] == side] for side in ("ours", "nanogpt")
    }
    pairs = zip(by_side["ours"], by_side["nanogpt"], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def show(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of the page."""
    head = (
        "| side | round | wall time | processor time | loss on the last tenth | by its own count |"
    )
    lines = [head, "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        lines.append(
            f"| {row['side']} | {row['round']} | {row['wall_seconds']:.1f} s "
            f"| {row['cpu_seconds']:.1f} s | {row['loss']:.4f} | {row['told']} |"
        )
    wall, cpu = ratio_of(rows, "wall_seconds"), ratio_of(rows, "cpu_seconds")
    loss = max(row["loss"] for row in rows if row["side"] == "ours")
    wanted = goal(
        f"goal: at most {GOAL_RATIO:g} of both, at a loss of at most {GOAL_LOSS:g}",
        max(wall, cpu) <= GOAL_RATIO and loss <= GOAL_LOSS,
    )
    lines += [
        "",
        f"Ours over nanoGPT: {wall:.2f} in wall time, {cpu:.2f} in processor time ({wanted}).",
    ]
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['side']:8} {row['wall_seconds']:7.1f} s wall {row['cpu_seconds']:7.1f} s processor "
        f"loss {row['loss']:.4f} ({row['told']})"
    )


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("of_the_checkout", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=DATA, help="tiny Shakespeare's input.txt")
    parser.add_argument("--nanogpt", type=Path, default=Path(), help="a checkout of nanoGPT")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    wanted = parser.parse_args()

    def theirs(folder: Path) -> Finished:
        if wanted.nanogpt == Path():
            return run_recreated(wanted.data, folder, wanted.threads)
        return run_checkout(wanted.nanogpt, wanted.data, folder, wanted.threads)

    sides = {"nanogpt": theirs, "ours": lambda f: run_ours(wanted.data, f, wanted.threads)}
    rows = measure(sides, wanted.rounds)
    print(json.dumps({"rows": rows}) if wanted.json else show(rows))
    if wanted.write:
        whose = "made again" if wanted.nanogpt == Path() else "from its own checkout"
        told = " ".join((__doc__ or "").split("\n\n")[1].split())
        text = f"{told} Its recipe is {whose}; {wanted.threads} threads each.\n\n{show(rows)}"
        write_section("shakespeare", "A GPT on tiny Shakespeare", text)


if __name__ == "__main__":
    main()
