"""The time of a selection is divided by what improves with time, and what is left over goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from command import CONTRACT, command, project_in
from trainwright.contract.document import Contract
from trainwright.contract.sections.model.selection import USUAL_CANDIDATES
from trainwright.core.files import read_json
from trainwright.model.forest.forest_fit import ForestScorer
from trainwright.planner.budget_allotment import Allotment, EndingDelay
from trainwright.predictor.bundle import read_bundle
from trainwright.run.selection import candidate_learner
from trainwright.run.selection.candidate_learner import folds_of
from trainwright.run.selection.cut_to_time import TimeLeft, weighed

AUTO = CONTRACT.replace("kind: boosting", "kind: auto").replace("  max_trees: 5\n", "")


def test_what_one_leaves_over_goes_to_the_others() -> None:
    used = 0.0
    left = TimeLeft(100.0, weighed(["linear", "boosting", "mlp"]), lambda: used)
    assert left.seconds == pytest.approx(94)
    assert left.share("linear") == pytest.approx(94 * 10 / 15)
    used = 4.0
    assert left.share("boosting") == pytest.approx(90 * 3 / 5)
    used = 80.0
    assert left.share("mlp") == left.seconds == pytest.approx(14)
    used = 200.0
    assert left.share("mlp") == 0.0


def test_a_second_training_of_what_would_be_kept_has_its_time() -> None:
    used = 0.0
    left = TimeLeft(200.0, weighed(["linear", "boosting"]), lambda: used, factor=1.25)
    assert left.has_second
    assert left.seconds == pytest.approx(188)
    assert left.share("linear") == pytest.approx(188 * 10 / 13 / 2.25)
    used = 8.0
    left.put_aside(4.0)
    assert left.seconds == pytest.approx(188 - 8 - 5)
    share = left.share("boosting")
    assert share * (1 + 1.25) == pytest.approx(175)
    # Were both kept, the second training would end with the time.
    assert used + share + 1.25 * (4.0 + share) == pytest.approx(188)


def test_the_linear_model_has_time_for_all_its_folds() -> None:
    # A run of 72 seconds once skipped it: 1.0 second a fold, its share was 0.2.
    left = TimeLeft(20.0, weighed(USUAL_CANDIDATES), lambda: 0.0)
    assert left.share("linear") > 5.0


def test_candidates_end_sooner_where_the_end_of_the_run_takes_longer() -> None:
    made = Allotment(120.0, 100.0, measured={"load": 1.5}, ending_seconds=10.0)
    busy = EndingDelay(made)
    busy._load = cast(Any, SimpleNamespace(factor=4.5))
    left = TimeLeft(100.0, weighed(["linear"]), lambda: 0.0, delay=lambda: busy.seconds)
    assert left.seconds == pytest.approx(94 - 20)
    kept = EndingDelay(made, 2.0)
    kept._load = busy._load
    assert kept.seconds == pytest.approx(20 + 7)
    idle = EndingDelay(made)
    idle._load = cast(Any, SimpleNamespace(factor=1.0))
    assert idle.seconds == 0
    assert EndingDelay(Allotment()).seconds == 0
    assert Allotment.from_json(made.to_json()) == made


def test_the_dummy_and_a_selection_without_budget_are_not_limited() -> None:
    left = TimeLeft(50.0, weighed(["linear"]), lambda: 0.0)
    assert left.share("dummy") == left.seconds
    assert math.isinf(TimeLeft(math.inf, weighed(["linear"]), lambda: 1e6).share("linear"))


@pytest.mark.parametrize(
    ("rows", "hours", "folds"),
    [
        (20_000, 1 / 30, 5),
        (40_000, 1 / 30, 0),
        (500_000, 1, 5),
        (500_000, "unlimited", 0),
        (50_000, "unlimited", 5),
        (99, "unlimited", 0),
    ],
)
def test_folds_need_time_and_rows(rows: int, hours: Any, folds: int) -> None:
    contract = Contract.model_validate(
        {
            "data": {"path": "rows.csv"},
            "model": {"kind": "auto"},
            "budget": {"hours": hours},
        }
    )
    prepared = cast(Any, SimpleNamespace(train=range(rows)))
    assert folds_of(contract, prepared) == folds


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, AUTO)


def slowed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Libraries seem to take so long, the linear model apart."""
    measure = candidate_learner.time_library

    def slow(plan: Any, encoded: Any) -> Any:
        is_slow = plan.contract.model.kind != "linear"
        times = measure(plan, encoded)
        return SimpleNamespace(
            start=seconds if is_slow else times.start,
            score_row=0.0,
            fitted_rows=times.fitted_rows,
        )

    monkeypatch.setattr(candidate_learner, "time_library", slow)


@pytest.mark.extended
@pytest.mark.usefixtures("project")
def test_a_forest_that_was_cut_grows_whole_the_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slowed(monkeypatch, 1e4)
    settings = (
        "model={kind: auto, candidates: [forest], ensemble: false}",
        "budget.hours=1",
        "metric.resamples=100",
    )
    words = [word for one in (*settings, "training.refit=true") for word in ("--set", one)]
    ran = command("train", "small.yaml", "--run", "one", *words)
    assert ran.code in (0, 3), ran.err
    (first,) = (one for one in read_json(Path("runs/one/ladder.json"))["rungs"] if one["cut"])
    assert first["name"] == "forest"
    scorer = read_bundle(Path("runs/one/bundle")).scorer
    assert isinstance(scorer, ForestScorer)
    assert len(scorer.sizes) == 300


@pytest.mark.extended
@pytest.mark.parametrize(
    ("seconds", "names", "said"),
    [
        (1e4, "[forest]", "trees, of "),
        (1e8, "[linear, forest, neighbours]", "a training needs"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_forest_gets_fewer_trees_and_what_does_not_fit_at_all_is_named(
    seconds: float, names: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed(monkeypatch, seconds)
    settings = (
        f"model.candidates={names}",
        "model.ensemble=false",
        "budget.hours=1",
        "metric.resamples=100",
    )
    words = [word for one in settings for word in ("--set", one)]
    ran = command("train", "small.yaml", "--run", "one", *words)
    assert ran.code in (0, 3), ran.err
    rungs = {one["name"]: one for one in read_json(Path("runs/one/ladder.json"))["rungs"]}
    forest = rungs["forest"]
    assert said in (forest["cut"] or forest["skipped"])
    assert said in ran.err
    if seconds == 1e4:
        fewer, all_ = (int(one) for one in re.findall(r"(\d+) trees", forest["cut"]))
        assert 20 <= fewer < all_
        scorer = read_bundle(Path("runs/one/bundle")).scorer
        assert isinstance(scorer, ForestScorer)
        assert len(scorer.sizes) == fewer
        assert "cut by the time" in Path("runs/one/report.html").read_text(encoding="utf-8")
    else:
        assert rungs["neighbours"]["skipped"]
        assert read_json(Path("runs/one/ladder.json"))["chosen"] == "linear"
