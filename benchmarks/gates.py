"""How often the gate of a registry promotes: models that are as good as the one in use, and better.

Champion and challenger score the same rows by the same signal, each with noise of its own, so that
each is right where the other is wrong. A challenger that is one point of ROC AUC better has less of
it. The decision is that of `trainwright registry promote`: the paired difference on the rows of the
gate, with the intervals of a contract's defaults.

python benchmarks/gates.py [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from page import write_section
from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.candidates.compare_candidates import ComparedRows, compare_candidates
from trainwright.evaluation.clause import gain_status

NULLS, BETTER = 1000, 200
POSITIVE, SIGNAL = 0.3, 1.3
SIZES = (1_000, 5_000, 20_000)
MOST_PROMOTED = 0.025
NOISE, LESS_NOISE = 1.0, 0.9595
"""AUC 0.8210 and 0.8310."""


def draw_scores(rows: int, noise: float, seed: int) -> tuple[ComparedRows, dict[str, Floats]]:
    """Rows, and scores of both models [N, 2]."""
    draw = np.random.default_rng(seed)
    truth = (draw.random(rows) < POSITIVE).astype(np.int64)
    scores = {}
    for name, own in (("champion", NOISE), ("challenger", noise)):
        raw = SIGNAL * truth + own * draw.normal(size=rows)
        share = 1 / (1 + np.exp(-raw))
        scores[name] = np.stack([1 - share, share], axis=1)
    return ComparedRows(truth, np.arange(rows), 1), scores


def is_promoted(rows: int, noise: float, seed: int) -> bool:
    """Does the challenger's gain pass?"""
    compared, scores = draw_scores(rows, noise, seed)
    metric = Metric(name="roc_auc")
    gain = compare_candidates(scores, compared, metric, seed, "champion")["challenger"].gain
    return gain_status(gain, "max") == "met"


def measure() -> Iterator[str]:
    """Shares of challengers that are promoted."""
    yield "| rows | as good, promoted (goal: at most 2.5%) | one point better, promoted |"
    yield "| --- | --- | --- |"
    for rows in SIZES:
        null = np.mean([is_promoted(rows, NOISE, seed) for seed in range(NULLS)])
        better = np.mean([is_promoted(rows, LESS_NOISE, seed) for seed in range(BETTER)])
        yield f"| {rows:,} | {null:.1%} of {NULLS:,} | {better:.0%} of {BETTER} |"


def main(*, write: bool) -> None:
    """Measure, print, and write the section."""
    lines = []
    for line in measure():
        print(line, flush=True)
        lines.append(line)
    if write:
        said = " ".join((__doc__ or "").split("\n\n")[1].split())
        write_section(
            "gates", "The gate of a registry", said + "\n\n" + "\n".join(lines), ["numpy"]
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    main(write=parser.parse_args().write)
