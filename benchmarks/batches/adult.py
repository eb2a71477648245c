"""Adult from its files to encoded parts: ours, and as people write it with polars and scikit-learn.

Both read the two files, of which nothing is kept from an earlier round, divide 15% of the training
rows off within each class, fit on the rest (median with an indicator, quantiles to a normal
distribution, codes of categories with the rare ones together) and encode all three parts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from trainwright.contract.reading.read_contract import read_contract
from trainwright.data.dispatch import prepare, read_data
from trainwright.planner.plan import plan
from trainwright.planner.plan_facts import read_device

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

CONTRACT = Path(__file__).resolve().parents[2] / "examples" / "income" / "contract.yaml"
NETWORK = ("model.kind=tabular_resnet", "data.reading.cache=off")
MISSING = ["", "?", "NA"]


def by_us() -> Callable[[], object]:
    """Reading and preparing of a run, its `auto`s decided beforehand."""
    document = read_contract(CONTRACT, NETWORK)
    raw = read_data(document.contract.data, document.source.folder)
    section = plan(document, raw.facts, read_device(False)).contract.data

    def go() -> object:
        read = read_data(section, document.source.folder)
        return prepare(read, section, "classification", 0)

    return go


def encoding(frame: pl.DataFrame) -> ColumnTransformer:
    """What makes numbers of the columns, not fitted yet."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder, QuantileTransformer

    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True),
        QuantileTransformer(output_distribution="normal"),
    )
    words = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=-1,
        encoded_missing_value=-2,
        min_frequency=5,
    )
    return make_column_transformer(
        (numbers, [name for name in frame.columns if frame[name].dtype.is_numeric()]),
        (words, [name for name in frame.columns if frame[name].dtype == pl.String]),
    )


def by_hand() -> Callable[[], object]:
    """polars and scikit-learn."""
    from sklearn.model_selection import train_test_split

    folder = CONTRACT.parent

    def read(name: str) -> pl.DataFrame:
        return pl.read_csv(folder / name, null_values=MISSING)

    def go() -> object:
        train, test = read("adult_train.csv.gz"), read("adult_test.csv.gz")
        train, test = (
            frame.with_columns(pl.col("income").str.strip_chars_end(".") == ">50K").drop(
                "fnlwgt", "education"
            )
            for frame in (train, test)
        )
        train, held = train_test_split(train, test_size=0.15, stratify=train["income"])
        features = encoding(train)
        return features.fit_transform(train), features.transform(held), features.transform(test)

    return go
