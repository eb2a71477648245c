"""Copies across the split make a verdict invalid where it rests on them, and only there: with
predictions that are right of copies, as of a model that remembers them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.contract.sections.metric import Metric
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.audit.text_overlap import audit_text
from trainwright.data.base.inputs import Floats, ImageInputs
from trainwright.data.images.prepare_images import prepare_images
from trainwright.data.images.raw_images import RawImages, facts_of
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.text.prepare_text import prepare_tokens, read_tokens
from trainwright.data.types import Prepared
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.experiments.copy_trials import JudgedCopies
from trainwright.evaluation.experiments.run_experiments import try_found_copies
from trainwright.evaluation.verdict import Verdict, judge

IMAGES = ImageData(kind="images", path="pets", test=0.3)
SEEDS = st.integers(0, 2**20)
Copy = Literal["none", "equal", "near"]


def drawn(
    seed: int, copy: Copy, share: float
) -> tuple[Prepared, tuple[AuditResult, ...], np.ndarray]:
    """Images of random squares, a share of them twice, their audit, and which of the test images
    have their like in training."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 30, (240, 1, 16, 16))
    for image in pixels:
        for _ in range(5):
            top, left = random.integers(0, 12, 2)
            image[0, top : top + 5, left : left + 5] += random.integers(20, 45)
    labels = np.arange(240) % 2
    original = np.arange(240)
    if copy != "none":
        again = random.choice(240, int(240 * share), replace=False)
        more = pixels[again] if copy == "equal" else (pixels[again] * 0.93 + 6).round()
        pixels = np.concatenate([pixels, more.astype(np.int64)])
        labels, original = labels[np.r_[:240, again]], original[np.r_[:240, again]]
    images, codes = {"train": ImageInputs.of(pixels.astype(np.uint8))}, {"train": labels}
    raw = RawImages(images, codes, ("a", "b"), facts_of(codes, ("a", "b"), ()))
    prepared = prepare_images(raw, IMAGES, seed)
    audited = audit_images(raw, IMAGES, prepared, seed, groups_of_raw(raw))
    return prepared, audited, np.isin(original[prepared.test.rows], original[prepared.train.rows])


def answers(prepared: Prepared, known: np.ndarray, of_new: float, seed: int) -> Floats:
    """Probabilities of a model that is right of what it knows, and of new images so often."""
    right = np.random.default_rng([seed, 1]).random(len(known)) < of_new
    chosen = np.where(right | known, prepared.test.target, 1 - prepared.test.target)
    return np.where(np.arange(2) == chosen[:, None], 0.9, 0.1)


def judged(
    prepared: Prepared,
    audited: tuple[AuditResult, ...],
    scores: Floats,
    metric: Metric,
    section: ImageData | TokenData = IMAGES,
) -> Verdict:
    constant = np.full_like(scores, 0.5) if scores.shape[1] > 1 else prepared.test.target * 5.0
    scored = Scored(
        prepared.test, prepared.target, scores, {"dummy": constant.reshape(scores.shape)}
    )
    verdict = judge(metric, (), evaluate(scored, metric, (), 0))
    folds = np.zeros(len(prepared.test), dtype=np.int64)
    rows = JudgedCopies(prepared, section, scored, verdict.clauses, metric, (), folds, 0)
    return verdict.with_experiments(try_found_copies(rows, audited))


def accuracy(target: float) -> Metric:
    return Metric(name="accuracy", target=target, resamples=100)


def between(of_all: np.ndarray, of_new: np.ndarray) -> float:
    """A target that all rows reach for certain, and new ones do not: halfway between the end of the
    interval and what is true of new rows."""
    reach = 2.5 * of_all.std() / np.sqrt(len(of_all))
    sign = 1 if of_all.mean() > of_new.mean() else -1
    sure, new = of_all.mean() - sign * reach, of_new.mean()
    assume(sign * (sure - new) > 0.02)
    return float((sure + new) / 2)


@settings(max_examples=6, deadline=None)
@given(SEEDS, st.sampled_from(["equal", "near"]))
def test_a_score_of_copies_is_invalid(seed: int, copy: Copy) -> None:
    prepared, audited, known = drawn(seed, copy, 0.8)
    scores = answers(prepared, known, 0.3, seed)
    right = (scores.argmax(axis=1) == prepared.test.target).astype(float)
    target = between(right, right[~known])
    verdict = judged(prepared, audited, scores, accuracy(target))
    assert verdict.status == "invalid"
    (found,) = verdict.decisive
    assert found.finding == ("exact_duplicates" if copy == "equal" else "near_duplicates")
    assert found.after < target < found.before
    assert found.difference.high < 0
    assert "remove the copies" in found.message


@pytest.mark.extended
@settings(max_examples=6, deadline=None)
@given(SEEDS, st.sampled_from(["none", "equal", "near"]), st.floats(0.1, 0.9))
def test_copies_that_change_no_decision_do_not(seed: int, copy: Copy, share: float) -> None:
    """The model is as good on new images, or the target is far below."""
    prepared, audited, known = drawn(seed, copy, share)
    honest = judged(
        prepared, audited, answers(prepared, np.zeros_like(known), 0.85, seed), accuracy(0.7)
    )
    assert honest.status != "invalid"
    verdict = judged(prepared, audited, answers(prepared, known, 0.75, seed), accuracy(0.3))
    assert verdict.status == "met"
    assert {one.outcome for one in verdict.experiments} <= {"measured", "not_measured"}
    for one in verdict.experiments:
        assert bool(one.warning()) == (one.outcome == "measured")


def test_an_accepted_finding_is_named_and_binds_nothing() -> None:
    prepared, audited, known = drawn(3, "near", 0.9)
    accept = ({"finding": "near_duplicates", "reason": "the same scenes come again"},)
    section = ImageData.model_validate({**IMAGES.model_dump(), "audit": {"accept": accept}})
    scores = answers(prepared, known, 0.3, 3)
    verdict = judged(prepared, audited, scores, accuracy(0.55), section)
    assert verdict.status == "met"
    (found,) = verdict.experiments
    assert (found.outcome, found.reason) == ("accepted", "the same scenes come again")


def test_blank_images_repeat_by_chance() -> None:
    prepared, _, _ = drawn(0, "none", 0)
    blank = np.full((60, 1, 16, 16), 200, dtype=np.uint8)
    inputs = prepared.train.inputs
    assert isinstance(inputs, ImageInputs)
    labels = {"train": np.arange(60 + len(inputs.pixels)) % 2}
    images = {"train": ImageInputs.of(np.concatenate([blank, inputs.pixels]))}
    raw = RawImages(images, labels, ("a", "b"), facts_of(labels, ("a", "b"), ()))
    prepared = prepare_images(raw, IMAGES, 0)
    found = audit_images(raw, IMAGES, prepared, 0, groups_of_raw(raw))
    assert [one.verdict for one in found] == ["clean", "clean"]


def test_with_folds_the_other_folds_train() -> None:
    section = ImageData.model_validate({**IMAGES.model_dump(), "split": {"folds": 4}})
    random = np.random.default_rng(0)
    pixels = random.integers(0, 250, (80, 1, 12, 12)).astype(np.uint8)
    pixels[40:] = pixels[:40]
    labels = {"train": np.arange(80) % 2}
    raw = RawImages(
        {"train": ImageInputs.of(pixels)}, labels, ("a", "b"), facts_of(labels, ("a", "b"), ())
    )
    exact, near = audit_images(raw, section, prepare_images(raw, section, 0), 0, groups_of_raw(raw))
    assert exact.verdict == "leak"
    # A fourth of the pairs fall into one fold.
    assert 40 <= exact.count < 80
    assert near.count == 0


WORDS = np.array([f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "nrst"])


def text(
    folder: Path, seed: int, copied: float, *, several: bool = False
) -> tuple[Prepared, tuple[AuditResult, ...], TokenData]:
    """A text of random words whose end repeats its beginning, in this share of its documents."""
    random = np.random.default_rng(seed)
    documents = [" ".join(random.choice(WORDS, 60)) for _ in range(240)]
    for at in range(168, 240):
        if at % 10 < 10 * copied:
            documents[at] = documents[int(random.integers(0, 160))]
    if several:
        pl.DataFrame({"text": documents}).write_parquet(folder / "text.parquet")
        named = {"path": "text.parquet", "text": "text", "windows": "packed"}
    else:
        (folder / "text.txt").write_text("\n".join(documents))
        named = {"path": "text.txt"}
    section = TokenData.model_validate(
        {"kind": "tokens", "validation": 0.1, "test": 0.2, "reading": {"cache": "off"}, **named}
    )
    prepared = prepare_tokens(read_tokens(section, folder), section)
    return prepared, audit_text(prepared), section


def nats(prepared: Prepared, known: np.ndarray, seed: int) -> Floats:
    """3.2 nats a token of new text, 0.5 of what was read before."""
    a_token = np.where(known, 0.5, 3.2) + np.random.default_rng(seed).normal(0, 0.1, len(known))
    values: Floats = (a_token * prepared.test.target)[:, None]
    return values


@pytest.mark.parametrize("several", [False, True])
@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_a_loss_of_repeated_text_is_invalid(
    tmp_path_factory: pytest.TempPathFactory, several: bool, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("text")
    prepared, audited, section = text(folder, seed, 0.5, several=several)
    assert audited[0].verdict == "leak"
    known = np.isin(prepared.test.rows, audited[0].rows)
    values = nats(prepared, known, seed)
    of_all = values[:, 0] / prepared.test.target
    metric = Metric(name="nats_per_token", target=between(of_all, of_all[~known]), resamples=100)
    verdict = judged(prepared, audited, values, metric, section)
    assert verdict.status == "invalid"
    (found,) = verdict.decisive
    assert (found.finding, found.metric) == ("text_overlap", "nats_per_token")
    assert found.before < metric.target < found.after

    alike = judged(prepared, audited, nats(prepared, known & False, seed), metric, section)
    assert alike.status == "missed"
    easy = metric.model_copy(update={"target": 4.0})
    measured = judged(prepared, audited, nats(prepared, known, seed), easy, section)
    assert measured.status == "met"
    assert [one.outcome for one in measured.experiments] == ["measured"]
    level = judged(prepared, audited, nats(prepared, known & False, seed), easy, section)
    assert level.status == "met"
    assert "changes_decision" not in {one.outcome for one in level.experiments}

    honest, found_clean, section = text(folder, seed, 0.0, several=several)
    assert found_clean[0].verdict == "clean"
    known = np.zeros(len(honest.test), dtype=np.bool_)
    assert judged(honest, found_clean, nats(honest, known, seed), easy, section).status == "met"
