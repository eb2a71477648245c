"""The leakage audit: every planted leak is found and named, and honest tables raise no alarm."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from audited_tables import RANDOM, STRATIFIED, audited, worst
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.files import Json
from trainwright.data.audit import feature_leaks
from trainwright.data.audit.run_audit import audit, audit_folds
from trainwright.data.prepare_table import prepare_fold
from trainwright.data.read_table import read_table
from trainwright.data.statistics.dependence import as_numbers, told_classes, told_numbers

ROWS = 3000
TIME = {"kind": "time", "column": "day"}


def honest() -> pl.DataFrame:
    """Houses: numbers, words, an honest date, and a price that follows from some of them."""
    random = np.random.default_rng(11)
    size, age = random.gamma(8, 12, ROWS), random.uniform(0, 90, ROWS)
    town = random.integers(0, 30, ROWS)
    price = 900 * size - 700 * age + 3000 * town + random.normal(0, 20_000, ROWS)
    day = np.sort(random.integers(0, 700, ROWS))
    return pl.DataFrame(
        {
            "size": size.round(1),
            "age": age.round(2),
            "town": [f"t{i}" for i in town],
            "plot": random.lognormal(6, 0.4, ROWS).round(1),
            "day": [date(2020, 1, 1) + timedelta(days=int(one)) for one in day],
            "price": price.round(2),
        }
    )


def sold(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with a class: dear or not."""
    dear = (frame["price"] > frame["price"].median()).replace_strict({True: "dear", False: "cheap"})
    return frame.with_columns(kind=dear).drop("price")


def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sample(fraction=1.0, shuffle=True, seed=5)


Plant = Callable[[pl.DataFrame], pl.DataFrame]


def repeated(frame: pl.DataFrame, share: float = 0.05, noise: float = 0.0) -> pl.DataFrame:
    again = frame.sample(fraction=share, seed=1)
    if noise:
        moved = [pl.col(name) + noise for name in ("size", "age", "plot")]
        again = again.with_columns(moved)
    return pl.concat([frame, again])


def of_people(frame: pl.DataFrame, name: str, strength: float) -> pl.DataFrame:
    """Twenty rows a person, whose taste moves the price."""
    random = np.random.default_rng(2)
    people = random.permutation(ROWS) % (ROWS // 20)
    taste = random.normal(0, strength, ROWS // 20)[people] * float(frame["price"].std())  # type: ignore[arg-type]
    labels = random.permutation(ROWS // 20)[people] * 7 + 1000
    return frame.with_columns(pl.Series(name, labels), price=pl.col("price") + taste)


NUMBERS: dict[str, tuple[Plant, str, str]] = {
    "copies": (repeated, "same rows", "leak"),
    "copies with rounding": (lambda f: repeated(f, noise=1e-3), "near rows", "leak"),
    "persons": (
        lambda f: of_people(f, "person_id", 1.0).rename({"person_id": "customer"}),
        "same groups",
        "suspicious",
    ),
    "persons who matter little": (
        lambda f: of_people(f, "customer", 0.05),
        "same groups",
        "suspicious",
    ),
    "a copy": (lambda f: f.with_columns(a=pl.col("price")), "tells the target", "leak"),
    "other units": (
        lambda f: f.with_columns(a=pl.col("price") * 0.92 + 5),
        "tells the target",
        "leak",
    ),
    "a logarithm": (
        lambda f: f.with_columns(a=(pl.col("price") + 1e6).log()),
        "tells the target",
        "leak",
    ),
    "a copy in words": (
        lambda f: f.with_columns(
            a=(pl.col("price") / 2500).round().cast(pl.Int64).cast(pl.String) + "k"
        ),
        "tells the target",
        "leak",
    ),
    "a wave": (
        lambda f: f.with_columns(a=(pl.col("price") / 3e5).sin()),
        "function of the target",
        "leak",
    ),
    "a square": (
        lambda f: f.with_columns(a=(pl.col("price") - 90_000) ** 2),
        "function of the target",
        "leak",
    ),
    "a band in words": (
        lambda f: f.with_columns(a=(pl.col("price") // 60_000).cast(pl.String) + "x"),
        "function of the target",
        "leak",
    ),
    "a sum": (
        lambda f: f.with_columns(a=pl.col("price") - 40 * pl.col("plot"), plot=pl.col("plot")),
        "tells the target",
        "leak",
    ),
    "a noisy copy": (
        lambda f: f.with_columns(
            a=pl.col("price") + pl.Series(np.random.default_rng(0).normal(0, 9_000, ROWS))
        ),
        "tells the target",
        "suspicious",
    ),
    "hours in a row": (
        lambda f: f.with_columns(
            price=pl.Series(np.cumsum(np.random.default_rng(0).normal(size=ROWS))).round(4)
        ),
        "future rows",
        "suspicious",
    ),
}

CLASSES: dict[str, tuple[Plant, str, str]] = {
    "copies": (repeated, "same rows", "leak"),
    "a copy": (lambda f: f.with_columns(a=pl.col("kind") + "!"), "tells the target", "leak"),
    "a code": (
        lambda f: f.with_columns(a=(pl.col("kind") == "dear").cast(pl.Int64) * 3),
        "tells the target",
        "leak",
    ),
    "a score": (
        lambda f: f.with_columns(
            a=(pl.col("kind") == "dear").cast(pl.Float64)
            + pl.Series(np.random.default_rng(0).uniform(0, 0.9, ROWS))
        ),
        "tells the target",
        "leak",
    ),
    "rings": (
        lambda f: f.with_columns(
            a=(
                pl.Series(np.arange(ROWS) % 6) * 2
                + (pl.col("kind") == "dear").cast(pl.Int64)
                + pl.Series(np.random.default_rng(0).uniform(0, 0.8, ROWS))
            )
        ),
        "tells the target",
        "leak",
    ),
    "filled for one class": (
        lambda f: f.with_columns(a=pl.when(pl.col("kind") == "dear").then(1.0)),
        "tells the target",
        "leak",
    ),
    "a copy with slips": (
        lambda f: f.with_columns(
            a=pl.when(pl.Series(np.arange(ROWS) % 14 == 0))
            .then(pl.lit("dear"))
            .otherwise(pl.col("kind"))
        ),
        "tells the target",
        "suspicious",
    ),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_a_leak_of_numbers_is_found(tmp_path: Path, what: str) -> None:
    plant, test, verdict = NUMBERS[what]
    frame = plant(honest())
    (frame if what == "hours in a row" else shuffled(frame)).write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "price", RANDOM)
    assert worst(found)[test] == verdict, [one.message for one in found]
    others = {name: one for name, one in worst(found).items() if name != test}
    allowed = {"tells the target", "function of the target"}
    assert all(one == "clean" for name, one in others.items() if name not in allowed), others


@pytest.mark.parametrize("what", CLASSES)
def test_a_leak_of_classes_is_found(tmp_path: Path, what: str) -> None:
    plant, test, verdict = CLASSES[what]
    shuffled(plant(sold(honest()))).write_csv(tmp_path / "a.csv")
    found = worst(audited(tmp_path / "a.csv", "kind", STRATIFIED))
    assert {name for name, one in found.items() if one != "clean"} == {test}
    assert found[test] == verdict


def test_a_date_that_is_filled_later(tmp_path: Path) -> None:
    frame = honest().with_columns(paid=pl.col("day") + pl.duration(days=3))
    frame.write_csv(tmp_path / "a.csv")
    (late,) = [
        one for one in audited(tmp_path / "a.csv", "price", TIME) if one.test == "later times"
    ]
    assert (late.verdict, late.number, late.columns) == ("leak", 1.0, ("paid",))


def walk(days: int = 800) -> pl.DataFrame:
    """A random walk, a day a row, with the walk of the day before and of the day after."""
    random = np.random.default_rng(4)
    price = pl.Series(np.cumsum(random.normal(0, 1, days)).round(4))
    day = pl.Series([date(2020, 1, 1) + timedelta(days=one) for one in range(days)])
    noise = random.normal(0, 1, days)
    return pl.DataFrame({"day": day, "noise": noise, "before": price.shift(1), "price": price})


def test_a_lag_of_the_target_is_no_leak_under_a_time_split(tmp_path: Path) -> None:
    shuffled(walk()).write_csv(tmp_path / "a.csv")
    (told,) = [
        one
        for one in audited(tmp_path / "a.csv", "price", TIME)
        if one.test in ("tells the target", "function of the target") and one.verdict != "clean"
    ]
    assert (told.verdict, told.columns) == ("suspicious", ("before",))
    assert "'before' is the target of 1 row earlier" in told.message


@pytest.mark.parametrize("what", ["a copy", "another unit", "the day after"])
def test_what_is_no_lag_for_certain_is_still_a_leak(tmp_path: Path, what: str) -> None:
    frame = walk()
    values = {
        "a copy": frame["price"],
        "another unit": frame["price"] * 0.92 + 5,
        "the day after": frame["price"].shift(-1),
    }[what]
    frame.drop("before").with_columns(a=values).write_csv(tmp_path / "a.csv")
    assert worst(audited(tmp_path / "a.csv", "price", TIME))["tells the target"] == "leak"


def test_rows_that_were_not_drawn_at_random_are_told_apart(tmp_path: Path) -> None:
    frame = honest()
    big = frame["size"] > frame["size"].quantile(0.8)
    part = pl.Series(
        np.where(big, "test", np.where(np.arange(ROWS) % 5 == 0, "validation", "train"))
    )
    frame.with_columns(part=part).write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "price", {"kind": "column", "column": "part"})
    (apart,) = [one for one in found if one.test == "different rows"]
    assert apart.verdict == "suspicious"
    assert apart.number > 0.75
    assert apart.columns[0] == "size"


def test_parts_that_were_all_drawn_at_random_are_not_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = honest()
    frame.write_csv(tmp_path / "a.csv")
    frame.with_columns(pl.col("size") + 1000).write_csv(tmp_path / "b.csv")
    files = {"path": "", "train_path": "a.csv", "test_path": "b.csv"}
    given = audited(tmp_path / "a.csv", "price", RANDOM, **files)
    assert worst(given)["different rows"] == "suspicious"

    def told_apart(*_: object) -> None:
        raise AssertionError("models were fitted")

    monkeypatch.setattr(feature_leaks, "_told_apart", told_apart)
    drawn = audited(tmp_path / "a.csv", "price", RANDOM)
    (apart,) = [one for one in drawn if one.test == "different rows"]
    assert apart.verdict == "clean"
    assert apart.message.startswith("not checked: the parts were drawn at random")


def test_files_that_share_a_group_and_the_future(tmp_path: Path) -> None:
    frame = of_people(honest(), "customer", 1.0)
    frame[:2000].write_csv(tmp_path / "a.csv")
    frame[2000:].write_csv(tmp_path / "b.csv")
    found = audited(
        tmp_path / "a.csv", "price", RANDOM, path="", train_path="a.csv", test_path="b.csv"
    )
    assert worst(found)["same groups"] == "suspicious"


@pytest.mark.parametrize("split", [RANDOM, {"kind": "random", "key": "*"}, TIME])
def test_an_honest_table_raises_no_alarm(tmp_path: Path, split: Json) -> None:
    shuffled(honest()).write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "price", split)
    assert {one.verdict for one in found} == {"clean"}, [one.message for one in found]
    assert len(worst(found)) == 9
    assert all(np.isfinite(one.number) for one in found)


def test_what_one_column_tells_of_another() -> None:
    random = np.random.default_rng(0)
    x = pl.Series(random.normal(size=2000))
    noise = pl.Series(random.normal(size=2000))
    assert told_numbers(x, (x * 3).sin()) > 0.998
    assert abs(told_numbers(x, noise) + 0.25) < 0.1
    classes = (x > 0).cast(pl.String)
    assert told_classes(x, classes) > 0.99
    assert told_classes(noise, classes) < 0.2
    assert told_classes(x[:20], classes[:20]) == 0.0


def test_the_worst_fold_speaks(tmp_path: Path) -> None:
    """Rows of the second fold stand in the third too."""
    rows = honest().drop("day")[:1200]
    frame = shuffled(rows).with_columns(fold=pl.Series([f"f{row % 4}" for row in range(1200)]))
    copies = frame.filter(pl.col("fold") == "f1")[:60].with_columns(fold=pl.lit("f2"))
    pl.concat([frame, copies]).write_csv(tmp_path / "rows.csv")
    section = TableData.model_validate(
        {
            "path": "rows.csv",
            "target": "price",
            "split": {"kind": "column", "column": "fold", "folds": 4},
            "features": Features(numeric="none", impute="median"),
        }
    )
    raw = read_table(section, tmp_path)
    folds = [prepare_fold(raw, section, "regression", 0, number) for number in range(4)]
    first = worst(audit(folds[3], section))
    assert first["same rows"] == "clean"
    # Whichever fold comes first.
    found = audit_folds(reversed(folds), section)
    assert worst(found) == {**first, "same rows": "leak"}
    spoken = {one.test: one.message.split(": ")[0] for one in found}
    assert spoken["same rows"] in ("fold 2 of 4", "fold 3 of 4", "fold 4 of 4")
    assert spoken["tells the target"] == "fold 1 of 4"


def test_very_many_classes_take_no_column_each() -> None:
    """One column for each of 20,000 classes would be 3 GB."""
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(20_000), 1)
    rare = pl.Series([f"k{code}" for code in codes])
    common = pl.Series([f"c{code % 300}" for code in codes])
    tracemalloc.start()
    assert as_numbers(rare).shape == (20_000, 201)
    assert told_classes(pl.Series(codes % 300), common) > 0.99
    assert told_classes(pl.Series(random.permutation(codes % 300)), common) < 0.1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400e6


def test_a_column_of_dates_is_named_as_it_is_called(tmp_path: Path) -> None:
    frame = (
        shuffled(honest())
        .sort("day")
        .with_columns(price=np.cumsum(np.random.default_rng(0).normal(size=ROWS)))
    )
    frame = shuffled(frame).rename({"day": "'it's \\day'"})
    frame.write_parquet(tmp_path / "rows.parquet")
    found = audited(tmp_path / "rows.parquet", "price", RANDOM)
    (one,) = [one for one in found if one.test == "future rows"]
    assert (one.verdict, one.columns) == ("suspicious", ("'it's \\day'",))


def test_near_texts_are_looked_for_unless_the_look_is_quick(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = [f"{a}{b}{c}a" for a in "bdfgkl" for b in "aeio" for c in "nrst"]
    texts = [" ".join(random.choice(words, 12)) for _ in range(300)]
    texts += [f"{text.title()}!" for text in texts[:60]]
    frame = pl.DataFrame({"body": texts, "label": ["no", "yes"] * 180})
    frame.write_parquet(tmp_path / "rows.parquet")
    given: dict[str, Json] = {"columns": {"body": {"kind": "text"}}}
    found = audited(tmp_path / "rows.parquet", "label", STRATIFIED, **given)
    assert worst(found)["near texts"] == "leak"
    (near,) = (one for one in found if one.test == "near texts")
    assert 0 < near.count < 60
    quick = audited(
        tmp_path / "rows.parquet", "label", STRATIFIED, quality={"look": "quick"}, **given
    )
    assert "near texts" not in worst(quick)


@pytest.mark.parametrize(("copies", "verdict"), [(1, "suspicious"), (2, "suspicious"), (3, "leak")])
def test_one_or_two_copies_of_few_rows_are_no_leak(
    tmp_path: Path, copies: int, verdict: str
) -> None:
    """They are a large share of few held-out rows, as the flower that iris holds twice."""
    frame = honest().head(120)
    parts = ["train"] * 80 + ["validation"] * 20 + ["test"] * (20 + copies)
    frame = pl.concat([frame, frame.head(copies)]).with_columns(part=pl.Series(parts))
    frame.write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "price", {"kind": "column", "column": "part"})
    (same,) = (one for one in found if one.test == "same rows")
    verb = "equals" if copies == 1 else "equal"
    assert (same.verdict, same.count) == (verdict, copies)
    assert same.message.startswith(f"{copies} of {40 + copies} held-out rows {verb} a training row")
    assert [one.severity for one in same.findings()] == [
        "error" if verdict == "leak" else "warning"
    ]
