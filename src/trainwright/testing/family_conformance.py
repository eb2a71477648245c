"""Conformance checks of families of models: a small training of each through its contract.

`write_family_case` writes rows that the family reads and a contract that trains it for seconds; the
checks train, interrupt, resume, read back and predict as a user does.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from PIL import Image

import trainwright as tw
from trainwright.contract.sections.model import sections
from trainwright.core.errors import DataMistake, Interrupted
from trainwright.core.files import Json, read_json, write_text
from trainwright.core.progress import Progress
from trainwright.predictor.predictor import Predictor

_ROWS = 400
_EMBEDDED = ("pairs", "text_pairs")
"""Kinds of data whose models give embeddings."""

_RARE = 0.15
_SETTINGS: Mapping[str, Json] = {
    "ft_transformer": {"width": 16, "heads": 2, "layers": 2},
    "resnet": {"width": 8, "blocks": [1]},
    "dual_encoder": {
        "width": 16,
        "image": {"kind": "resnet", "width": 8, "blocks": [1]},
        "text": {"kind": "transformer", "width": 16, "layers": 1, "heads": 2},
    },
    "bi_encoder": {
        "width": 16,
        "text": {"kind": "transformer", "width": 16, "layers": 1, "heads": 2},
    },
    "gpt": {"layers": 1, "heads": 2, "width": 16, "context": 16},
    "vision_language": {
        "image": {"kind": "resnet", "width": 8, "blocks": [1]},
        "projector": {"grid": 2},
        "decoder": {"kind": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 64},
    },
}
"""Networks that would train for minutes at their usual size."""

_SLICES: Mapping[str, Json] = {
    "table": {"column": "city"},
    "images": {"column": "label"},
    "pairs": {"column": "shade"},
    "text_pairs": {"column": "thing"},
    "captions": {"column": "shade"},
    "tokens": {"where": "position > 100", "name": "late"},
}


@dataclass(frozen=True, slots=True)
class FamilyCase:
    """A family with data of a kind that it reads; `contract` trains it in `folder`."""

    kind: str
    reads: str
    contract: Mapping[str, Any]
    folder: Path

    @property
    def runs(self) -> Path:
        """The folder of its runs."""
        return self.folder / "runs"

    def changed(self, section: str, **keys: Json) -> FamilyCase:
        """The same with other keys of a section."""
        changed = {**self.contract, section: {**self.contract.get(section, {}), **keys}}
        return FamilyCase(self.kind, self.reads, changed, self.folder)


def write_family_case(kind: str, folder: Path) -> FamilyCase:
    """Write data of the first kind that a family reads, and its contract."""
    traits = sections()[kind].traits
    reads = traits.reads[0]
    data, task, metric = _WRITERS[reads](folder)
    contract: dict[str, Any] = {
        "name": kind,
        "task": task,
        "data": data,
        "model": {"kind": kind, **_SETTINGS.get(kind, {})},
        "metric": {"name": metric, "target": "dummy", "resamples": 100},
        "slices": [_SLICES[reads]],
    }
    if traits.trained_by == "loop":
        contract["training"] = {"num_epochs": 2, "batch_size": 16}
    if reads in _EMBEDDED:
        contract["training"] = {"num_epochs": 3, "batch_size": 8, "gradient_accumulation_steps": 2}
    if traits.rounds:
        contract["model"][traits.rounds] = 12
        if "training.checkpointing" in traits.training_keys:
            contract["training"] = {"checkpointing": {"save_every_minutes": 60}}
    return FamilyCase(kind, reads, contract, folder)


def write_several_case(kind: str, folder: Path, task: str) -> FamilyCase:
    """Write rows with several targets, and the contract of a family that predicts them: numbers for
    the task `regression`, labels for `multilabel`."""
    rows = family_rows(_ROWS, 0).drop("bought")
    draw = np.random.default_rng(5)
    size = rows["age"].to_numpy() / 20 + draw.normal(0, 0.3, _ROWS)
    in_oslo = (rows["city"] == "Oslo").to_numpy()
    if task == "multilabel":
        targets: dict[str, Any] = {
            "old": size > 2.8,
            "northern": in_oslo ^ (draw.random(_ROWS) < 0.1),
        }
    else:
        targets = {"size": size, "warmth": 100 - 60 * in_oslo + draw.normal(0, 5, _ROWS)}
    columns = [pl.Series(name, values).cast(pl.Float64) for name, values in targets.items()]
    if task == "multilabel":
        columns = [one.cast(pl.Int64) for one in columns]
    rows.with_columns(columns).write_csv(folder / "rows.csv")
    traits = sections()[kind].traits
    contract: dict[str, Any] = {
        "name": kind,
        "task": task,
        "data": {"path": str(folder / "rows.csv"), "target": list(targets)},
        "model": {"kind": kind, **_SETTINGS.get(kind, {})},
        "metric": {"target": "dummy", "resamples": 100},
        "slices": [_SLICES["table"]],
    }
    if traits.trained_by == "loop":
        contract["training"] = {"num_epochs": 2, "batch_size": 16}
    if traits.rounds:
        contract["model"][traits.rounds] = 12
    return FamilyCase(kind, "table", contract, folder)


def _write_table(folder: Path) -> tuple[Json, str, str]:
    """Numbers of which some are missing, and a category; the positive class is rare."""
    family_rows(_ROWS, 0).write_csv(folder / "rows.csv")
    data = {"path": str(folder / "rows.csv"), "target": "bought", "positive": "yes"}
    return data, "classification", "roc_auc"


def family_rows(rows: int, seed: int) -> pl.DataFrame:
    """Rows of a table, with their target `bought`."""
    draw = np.random.default_rng(seed)
    age, visits = draw.integers(18, 80, rows), draw.normal(10, 3, rows).round(2)
    city = draw.choice(["Bern", "Oslo", "Rome"], rows)
    likely = (age - 50) / 10 + 2.0 * (city == "Oslo") + draw.normal(0, 0.7, rows)
    seen = [None if missing else value for value, missing in zip(visits, age % 9 == 0, strict=True)]
    bought = np.where(likely > np.quantile(likely, 1 - _RARE), "yes", "no")
    return pl.DataFrame({"age": age, "city": city, "visits": seen, "bought": bought})


def _write_images(folder: Path) -> tuple[Json, str, str]:
    """Bright and dark images."""
    draw = np.random.default_rng(0)
    for row in range(90):
        label = ("dark", "bright", "grey")[row % 3]
        pixels = draw.integers(0, 60, (8, 8), dtype=np.uint8) + np.uint8(60 * (row % 3))
        path = folder / "images" / label / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return {"kind": "images", "path": str(folder / "images")}, "classification", "accuracy"


def _write_text(folder: Path) -> tuple[Json, str, str]:
    """Words in an order that can be learned."""
    words = np.random.default_rng(0).choice(["ab", "cde", "f"], 1500)
    write_text(folder / "text.txt", " ".join(words))
    return {"kind": "tokens", "path": str(folder / "text.txt")}, "generation", "nats_per_token"


def _write_pairs(folder: Path) -> tuple[Json, str, str]:
    """Bright and dark images, whose captions say so and number them."""
    draw = np.random.default_rng(0)
    names, captions = [], []
    (folder / "pictures").mkdir()
    for row in range(96):
        shade, side = ("dark", "bright", "grey")[row % 3], ("left", "right")[row // 3 % 2]
        pixels = draw.integers(0, 20, (8, 8), dtype=np.uint8) + np.uint8(60 * (row % 3))
        pixels[:, 4 * (row // 3 % 2) :][:, :4] += np.uint8(80)
        names.append(f"pictures/{row:03d}.png")
        captions.append(f"{shade} with light on the {side}, number {row % 7}")
        Image.fromarray(pixels).save(folder / names[-1])
    frame = pl.DataFrame({"image": names, "caption": captions})
    frame.with_columns(frame["caption"].str.split(" ").list.first().alias("shade")).write_csv(
        folder / "pairs.csv"
    )
    return {"kind": "pairs", "path": str(folder / "pairs.csv")}, "retrieval", "mean_recall"


def _write_captions(folder: Path) -> tuple[Json, str, str]:
    """The same images and captions, which are written."""
    data, *_ = _write_pairs(folder)
    return {**data, "kind": "captions"}, "generation", "nats_per_token"


def _write_text_pairs(folder: Path) -> tuple[Json, str, str]:
    """Questions of things, and answers that name them in other words."""
    words = {"dog": "animals", "car": "traffic", "tea": "kitchen", "sea": "travel"}
    rows = [
        {
            "query": f"{ask} the {one}, number {at % 3}",
            "passage": f"{words[one]} {ask}",
            "thing": one,
        }
        for at, ask in enumerate(("where is", "who has", "when comes", "how much is") * 6)
        for one in words
    ]
    pl.DataFrame(rows).unique("query", maintain_order=True).write_csv(folder / "texts.csv")
    return {"kind": "text_pairs", "path": str(folder / "texts.csv")}, "retrieval", "passage_mrr"


_WRITERS = {
    "table": _write_table,
    "images": _write_images,
    "tokens": _write_text,
    "pairs": _write_pairs,
    "text_pairs": _write_text_pairs,
    "captions": _write_captions,
}


@final
class _TerminatesAt:
    """Stop rule that sends SIGTERM to its own process at a step, as a cluster does."""

    def __init__(self, step: int) -> None:
        self._step = step

    def reason(self, progress: Progress) -> None:
        """Never a reason of its own."""
        if progress.step == self._step:
            os.kill(os.getpid(), signal.SIGTERM)


def _train(case: FamilyCase, name: str, *, resume: bool = False) -> Path:
    return tw.train(case.contract, runs=case.runs, name=name, resume=resume).folder


def model_files(run: Path) -> dict[str, bytes]:
    """The files of a run's bundle that hold its model."""
    bundle = run / "bundle"
    own = (path for path in sorted(bundle.rglob("*")) if path.is_file())
    return {path.name: path.read_bytes() for path in own if path.name != "bundle.json"}


def check_same_model_again(case: FamilyCase, run: Path) -> None:
    """Another training with the same seed ends with the same bits as `run`."""
    again = _train(case, "again")
    assert model_files(again) == model_files(run)


def check_resume(case: FamilyCase, run: Path) -> None:
    """Interrupted after three steps or trees and resumed, it ends with the same bits as `run`."""
    rule = _TerminatesAt(3)
    try:
        tw.fit(case.contract, runs=case.runs, name="cut", stop_rules=[rule], progress=False)
    except Interrupted:
        done = _train(case, "cut", resume=True)
        assert model_files(done) == model_files(run)
    else:
        raise AssertionError("it was not interrupted")


def check_judged(run: Path) -> None:
    """The verdict stands on the metric's clause and its interval, overall and in each slice."""
    evaluation = read_json(run / "evaluation.json")
    assert evaluation["verdict"]["clauses"], evaluation["verdict"]
    assert evaluation["evaluation"]["slices"], "each slice has its metric"


def check_batches(case: FamilyCase, run: Path) -> None:
    """The model that is read back predicts the same, whatever rows it is asked for together."""
    rows = new_rows(case)
    predict = tw.load(run).predict
    whole = _probabilities(predict(rows))
    assert bool(np.isfinite(whole).all())
    if case.contract["task"] in ("classification", "retrieval"):
        total = (whole**2).sum(axis=1) if case.reads in _EMBEDDED else whole.sum(axis=1)
        np.testing.assert_allclose(total, 1, atol=1e-6)
    for size in (1, 7):
        parts = [predict(rows[start : start + size]) for start in range(0, 21, size)]
        found = np.concatenate([_probabilities(part) for part in parts])
        # Numbers of a network are single, in whatever unit.
        np.testing.assert_allclose(found, whole[:21], rtol=1e-6, atol=1e-6)


def new_rows(case: FamilyCase) -> Any:
    """Rows that the model has not seen: 50 of a table, or images."""
    if case.reads == "table":
        return family_rows(50, 1).drop("bought")
    if case.reads == "text_pairs":
        return pl.DataFrame({"query": [f"what of number {at}, please" for at in range(30)]})
    return np.random.default_rng(1).integers(0, 255, (30, 3, 8, 8), dtype=np.uint8)


def _probabilities(answer: pl.DataFrame) -> Any:
    return answer.drop("prediction", strict=False).to_numpy()


def check_unusual_values(run: Path) -> None:
    """Missing values where none was missing in training, an unseen category and the largest
    numbers give probabilities; an unseen category is scored as any other unseen one."""
    rows = family_rows(6, 2).drop("bought").cast({"age": pl.Float64})
    model = tw.load(run)
    for name in ("age", "city", "visits"):
        emptied = rows.with_columns(pl.lit(None).cast(rows[name].dtype).alias(name))
        assert bool(np.isfinite(_probabilities(model.predict(emptied))).all()), name
    for value in (3e38, -3e38, 0.0):
        extreme = _with_age(rows, value)
        assert bool(np.isfinite(_probabilities(model.predict(extreme))).all()), value
    one, other = (rows.with_columns(pl.lit(name).alias("city")) for name in ("Lund", "Graz"))
    np.testing.assert_array_equal(
        _probabilities(model.predict(one)), _probabilities(model.predict(other))
    )


def check_signature(run: Path) -> None:
    """Rows without a column, or with words or infinity for numbers, are refused by its name."""
    rows = family_rows(6, 2).drop("bought")
    wrong = (rows.drop("age"), *(_with_age(rows, value) for value in ("many", math.inf)))
    model = tw.load(run)
    assert all("age" in _refusal(model, given) for given in wrong)


def _refusal(model: Predictor, rows: pl.DataFrame) -> str:
    """The error that rows are refused with; empty if they are not."""
    try:
        model.predict(rows)
    except DataMistake as error:
        return str(error)
    return ""


def _with_age(rows: pl.DataFrame, value: object) -> pl.DataFrame:
    return rows.with_columns(pl.lit(value).alias("age"))


def check_class_weights(case: FamilyCase, run: Path) -> None:
    """With balanced class weights the rare class becomes likelier."""
    if sections()[case.kind].traits.trained_by == "loop":
        loss = {"name": "cross_entropy", "class_weights": "balanced"}
        weighted = case.changed("training", loss=loss)
    else:
        weighted = case.changed("model", class_weights="balanced")
    balanced = _train(weighted, "balanced")
    rows = family_rows(200, 3).drop("bought")
    usual, raised = (_rare(tw.load(one), rows) for one in (run, balanced))
    assert raised > usual, (usual, raised)


def _rare(model: Predictor, rows: pl.DataFrame) -> float:
    return float(model.predict(rows)["probability_yes"].to_numpy().mean())
