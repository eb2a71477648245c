"""The best learning rate of three widths, with and without the maximal update parametrization.

Decoders of characters that differ in their width alone (blocks, windows, batch, width of a head,
steps and schedule are the same) are trained on plays at a grid of rates, once as usual models and
once with `init: {kind: mup, base_width: 32}`, of which the narrowest is the usual model. What
counts is the validation loss at the end (nats a token), the mean of the seeds. The best rate is the
vertex of the parabola through the best of the grid and its neighbours, over the logarithm of the
rate. Transfer is what it costs to train the widest with the best rate of the narrowest on the grid,
in place of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

import trainwright as tw
from page import PAGE, write_section
from real import FOLDER

_TEXT = FOLDER / "tinyshakespeare" / "input.txt"
_CHARACTERS = 400_000
PICTURE = PAGE.parent / "pictures" / "mup.svg"
WIDTHS = (32, 96, 256)
EXPONENTS = tuple(range(-9, -2))
"""Of 2: the rates."""
KINDS: Mapping[str, str] = {
    "usual": "usual",
    "mup": f"{{kind: mup, base_width: {WIDTHS[0]}}}",
}
_HEAD = 16
_CONTRACT = """\
name: width
task: generation
data: {{kind: tokens, path: plays.txt, vocabulary: characters, validation: 0.1, test: 0.05}}
model: {{kind: gpt, layers: 2, width: 32, heads: 2, context: 64}}
training:
  num_steps: {steps}
  batch_size: 16
  gradient_accumulation_steps: 1
  early_stopping: off
  mixed_precision: fp32
  compute: {{compile: off, matrix_products: exact}}
  validate_every_n_steps: {steps}
  optimizer: {{name: adamw, learning_rate: 0.001}}
  checkpointing: {{save_every_n_steps: {steps}}}
metric: {{name: nats_per_token, target: 1.0}}
"""


class Point(NamedTuple):
    """A training: its kind, width, exponent of the rate, seed and validation loss."""

    kind: str
    width: int
    exponent: int
    seed: int
    loss: float


def measure(steps: int, seeds: int) -> list[Point]:
    """Every training of the grid, in one process on prepared data."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plays.txt").write_text(_TEXT.read_text(encoding="utf-8")[:_CHARACTERS])
        contract = folder / "contract.yaml"
        contract.write_text(_CONTRACT.format(steps=steps), encoding="utf-8")
        prepared = [tw.prepare(contract, overrides=[f"seed={seed}"]) for seed in range(seeds)]
        grid = itertools.product(WIDTHS, KINDS, EXPONENTS, range(seeds))
        for width, kind, exponent, seed in grid:
            if kind == "mup" and width == WIDTHS[0]:
                continue  # it is the usual model, bit for bit
            settings = (
                f"seed={seed}",
                f"model.width={width}",
                f"model.heads={width // _HEAD}",
                f"model.init={KINDS[kind]}",
                f"training.optimizer.learning_rate={2.0**exponent!r}",
            )
            run = tw.fit(prepared[seed], overrides=settings, runs=folder / "runs", progress=False)
            found.append(Point(kind, width, exponent, seed, run.score))
            print(*found[-1], file=sys.stderr, flush=True)
    same = [one._replace(kind="mup") for one in found if one.width == WIDTHS[0]]
    return [*found, *same]


def losses(found: Sequence[Point], kind: str, width: int) -> dict[int, float]:
    """Mean loss at each exponent."""
    chosen: dict[int, list[float]] = {}
    for one in found:
        if (one.kind, one.width) == (kind, width):
            chosen.setdefault(one.exponent, []).append(one.loss)
    return {exponent: statistics.mean(each) for exponent, each in sorted(chosen.items())}


def best_exponent(of: Mapping[int, float]) -> float:
    """The vertex of the parabola through the best and its neighbours; the end of a grid itself."""
    best = min(of, key=lambda one: of[one])
    if best - 1 not in of or best + 1 not in of:
        return float(best)
    before, here, after = of[best - 1], of[best], of[best + 1]
    bend = before - 2 * here + after
    return best + 0.5 * (before - after) / bend if bend > 0 else float(best)


def table(found: Sequence[Point]) -> str:
    """A row for each model."""
    heads = " | ".join(f"2^{one}" for one in EXPONENTS)
    lines = [f"| init | width | {heads} | best rate |", "| --- " * (len(EXPONENTS) + 3) + "|"]
    for kind, width in itertools.product(KINDS, WIDTHS):
        of = losses(found, kind, width)
        best = min(of, key=lambda one: of[one])
        cells = [f"**{v:.3f}**" if e == best else f"{v:.3f}" for e, v in of.items()]
        lines.append(
            f"| {kind} | {width} | {' | '.join(cells)} | {2 ** best_exponent(of):.2g} "
            f"(2^{best_exponent(of):.1f}) |"
        )
    return "\n".join(lines)


def transfer(found: Sequence[Point]) -> str:
    """How far the best rate moves, and what the rate of the narrowest costs the widest."""
    lines = []
    for kind in KINDS:
        narrow, wide = (losses(found, kind, width) for width in (WIDTHS[0], WIDTHS[-1]))
        moved = best_exponent(wide) - best_exponent(narrow)
        taken = min(narrow, key=lambda one: narrow[one])
        cost = wide[taken] - min(wide.values())
        lines.append(
            f"- `{kind}`: from width {WIDTHS[0]} to {WIDTHS[-1]} the best rate is multiplied by "
            f"{2**moved:.2f}; with that of the narrowest the widest has a loss of "
            f"{wide[taken]:.3f}, {cost:.3f} above its best."
        )
    return "\n".join(lines)


def draw(found: Sequence[Point], file: Path) -> None:
    """Loss over the rate, a curve for each width."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "mup"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(KINDS), figsize=(9, 3.4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        for width in WIDTHS:
            of = losses(found, kind, width)
            axis.plot([2.0**one for one in of], list(of.values()), marker="o", label=str(width))
            axis.axvline(2 ** best_exponent(of), color=axis.lines[-1].get_color(), linestyle=":")
        axis.set(xscale="log", xlabel="learning rate", title=kind)
        axis.grid(alpha=0.3)
        axis.legend(title="width", fontsize=7)
    lowest = min(one.loss for one in found)
    axes[0].set(ylabel="validation loss, nats a token", ylim=(lowest - 0.05, lowest + 1.2))
    figure.tight_layout()
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Measure, print, and write the section with its picture if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every training into a file")
    parser.add_argument("--write", action="store_true", help="write its section of the page")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(given.steps, given.seeds)
    if given.json:
        given.json.write_text(json.dumps(found), encoding="utf-8")
    assert all(math.isfinite(one.loss) for one in found)
    print(f"{table(found)}\n\n{transfer(found)}")
    if given.write:
        draw(found, PICTURE)
        about = " ".join((__doc__ or "").splitlines()[2:]).strip()
        how = (
            f"2 blocks, windows of 64 characters, 16 in a batch, {given.steps} steps of AdamW in "
            f"fp32, {given.seeds} seed{'s' if given.seeds > 1 else ''}."
        )
        picture = f"![Loss over the learning rate](pictures/{PICTURE.name})"
        text = f"{about}\n\n{how}\n\n{picture}\n\n{table(found)}\n\n{transfer(found)}"
        write_section("mup", "A learning rate for every width", text)


if __name__ == "__main__":
    main()
