"""How often a verdict is invalid on images with copies on both sides of the split.

Images of random squares with labels that hardly show are drawn anew, trained on by boosting and
judged on their test images. With copies, some images stand in the files twice more, in the second
kind 3% darker. The truth is the same model on fresh images, and the target is drawn between the
score and the truth, so that being met rests on the copies; images on which they lift the score by
less than its interval are drawn again. Honest images have no copies, copies of images that any
model gets right, or a tenth of one grey; there the target is drawn within an interval's width of
the score.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml

import page
from leakage import Case, case, share, table
from trainwright.core.progress import StopFlag
from trainwright.data.base.inputs import Floats, ImageInputs, Part
from trainwright.data.columns.class_target import Classes
from trainwright.data.images.prepare_images import image_part
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.verdict import judge
from trainwright.run.audit_data import look_at_data
from trainwright.run.judging.judge import HeldOut, try_audited
from trainwright.run.learners.learner import build_learner
from trainwright.run.measured_choices import settle
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

_MOST_DRAWS = 4
_WORDS = np.array([f"{a}{b}{c} " for a in "bdfgklmnprst" for b in "aeiou" for c in "nrst"])


@dataclass(frozen=True)
class Made:
    """Files to train on, and how the metric is measured on fresh data by what the run has read."""

    contract: Mapping[str, Any]
    fresh: Callable[[Ready], Part]


Maker = Callable[[np.random.Generator, Path], Made]


def _squares(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 12, 12] and labels of which three in ten are wrong."""
    images = random.integers(0, 30, (count, 12, 12))
    for image in images:
        for _ in range(4):
            top, left = random.integers(0, 9, 2)
            image[top : top + 4, left : left + 4] += random.integers(20, 50)
    light = images[:, :6].sum((1, 2)) > 6 * 12 * 45
    return images.astype(np.uint8), np.where(random.random(count) < 0.7, light, ~light)


def _images(
    random: np.random.Generator, folder: Path, change: Callable[[np.ndarray], np.ndarray] | None
) -> Made:
    images, labels = _squares(random, 600)
    if change is not None:
        again = np.repeat(np.flatnonzero(random.random(600) < random.uniform(0.4, 0.7)), 2)
        images = np.concatenate([images, change(images[again])])
        labels = np.concatenate([labels, labels[again]])
    order = random.permutation(len(images))
    _write_images(images[order], labels[order], folder)
    pixels, truth = _squares(random, 2000)

    def fresh(ready: Ready) -> Part:
        target = ready.prepared.target
        assert isinstance(target, Classes)
        inputs, rows = ImageInputs.of(pixels[:, None]), np.arange(len(pixels))
        return image_part(inputs, truth.astype(np.int64), target, "test", rows)

    return Made(_IMAGES, fresh)


def _write_images(images: np.ndarray, labels: np.ndarray, folder: Path) -> None:
    for name, values in (("images-idx3", images), ("labels-idx1", labels.astype(np.uint8))):
        sizes = np.array(values.shape, dtype=">i4").tobytes()
        head = bytes([0, 0, 8, values.ndim]) + sizes
        (folder / f"train-{name}-ubyte").write_bytes(head + values.tobytes())


def equal_images(random: np.random.Generator, folder: Path) -> Made:
    return _images(random, folder, lambda images: images)


def darker_images(random: np.random.Generator, folder: Path) -> Made:
    return _images(random, folder, lambda images: (images * 0.97).round().astype(np.uint8))


def images_alone(random: np.random.Generator, folder: Path) -> Made:
    return _images(random, folder, None)


def blank_images(random: np.random.Generator, folder: Path) -> Made:
    """A tenth of them of one grey."""
    made = _images(random, folder, None)
    images, labels = _squares(random, 600)
    images[:60] = random.integers(0, 255, (60, 1, 1))
    order = random.permutation(600)
    _write_images(images[order], labels[order], folder)
    return made


def easy_copies(random: np.random.Generator, folder: Path) -> Made:
    """Copies of images whose labels show: a model need not remember them."""
    made = _images(random, folder, None)
    images, _ = _squares(random, 600)
    labels = np.arange(600) % 2 == 0
    images[labels, :6] = np.minimum(images[labels, :6].astype(np.int64) + 120, 255)
    again = np.repeat(np.flatnonzero(random.random(600) < 0.3), 2)
    order = random.permutation(600 + len(again))
    every = np.append(np.arange(600), again)[order]
    _write_images(images[every], labels[every], folder)
    return made


_IMAGES = {
    "data": {"kind": "images", "path": ".", "test": 0.3},
    "model": {"kind": "boosting", "max_trees": 40, "learning_rate": 0.3},
    "metric": {"name": "accuracy", "target": "baseline", "resamples": 200},
}
LEAKING: Mapping[str, Maker] = MappingProxyType(
    {
        "images twice more": equal_images,
        "images twice more, darker": darker_images,
    }
)
HONEST: Mapping[str, Maker] = MappingProxyType(
    {
        "images without copies": images_alone,
        "blank images": blank_images,
        "copies of easy images": easy_copies,
    }
)


def tried(maker: Maker, seed: int, draw: int, folder: Path, *, leaking: bool) -> Case | None:
    """One set of data, trained on and judged; none where its copies do not matter."""
    random = np.random.default_rng([seed, draw])
    made = maker(random, folder)
    (folder / "contract.yaml").write_text(yaml.safe_dump(dict(made.contract)))
    screen = StreamScreen(io.StringIO())
    request, stages = Request(folder / "contract.yaml"), StageTimes()
    ready = settle(request, make_ready(request, stages, screen), stages, screen)
    run = RunContext(RunFolder(folder / f"run-{seed}-{draw}"), (), screen, StopFlag())
    predictor = build_learner(ready.plan).fit(ready.prepared, run).predictor
    prepared, contract = ready.prepared, ready.plan.contract
    scores = predictor.score(prepared.test.inputs)
    beside = fit_baselines(prepared).scores(prepared.test)
    scored = Scored(prepared.test, prepared.target, scores, beside)
    metric = contract.metric
    found = evaluate(scored, metric, (), contract.seed).metrics[metric.name]
    truth = _of(predictor.score, made.fresh(ready), metric)
    if leaking and found.low <= truth:
        return None
    width = found.high - found.low
    low = truth if leaking else found.low - width
    metric = metric.model_copy(update={"target": float(random.uniform(low, found.low))})
    plan = replace(ready.plan, contract=contract.model_copy(update={"metric": metric}))
    verdict = judge(metric, (), evaluate(scored, metric, (), contract.seed))
    audited = look_at_data(ready).audited
    return case(try_audited(replace(ready, plan=plan), scored, verdict, HeldOut(()), audited))


def _of(score: Callable[..., Floats], part: Part, metric: Any) -> float:
    return measure(metric.name, answers_of(part.target, score(part.inputs)), metric)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=8, help="sets of data of each kind")
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cases: dict[bool, dict[str, list[Case]]] = {True: {}, False: {}}
    with tempfile.TemporaryDirectory() as place:
        os.environ["TRAINWRIGHT_CACHE"] = f"{place}/cache"
        for leaking, makers in ((True, LEAKING), (False, HONEST)):
            for at, (name, maker) in enumerate(makers.items()):
                if options.only not in name:
                    continue
                folder = Path(place) / f"{leaking}-{at}"
                folder.mkdir()
                drawn = []
                for seed in range(options.sets):
                    draws = range(_MOST_DRAWS if leaking else 1)
                    each = (tried(maker, seed, draw, folder, leaking=leaking) for draw in draws)
                    drawn += [one for one in (next(filter(None, each), None),) if one]
                cases[leaking][name] = drawn
                print(name, sum(one.invalid for one in drawn), len(drawn), flush=True)
    found, alarms = share(cases[True]), share(cases[False])
    text = "\n\n".join(
        [
            __doc__ or "",
            table(cases[True], "copies decide"),
            table(cases[False], "honest"),
            f"Goals: {page.goal('invalid in at least 95% of the first', found >= 0.95)}; "
            f"{page.goal('in at most 1% of the second', alarms <= 0.01)}.",
        ]
    )
    print(text)
    if options.write:
        page.write_section("copies", "Copies of images", text, ("lightgbm",))


if __name__ == "__main__":
    main()
