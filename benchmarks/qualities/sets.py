"""The real data sets as text, as a file holds them, each with its target."""

from __future__ import annotations

import polars as pl

from real import FOLDER

TARGETS = {
    "adult": "income",
    "banking77": "category",
    "bike": "cnt",
    "california": "median_house_value",
    "elec2": "class",
    "etth1": "OT",
    "parkinsons": "total_UPDRS",
    "penguins": "species",
    "sms": "label",
    "telco": "Churn",
    "titanic": "Survived",
}
_FILES = {
    "adult": "adult/adult_train.csv",
    "banking77": "banking77/train.csv",
    "bike": "bike-sharing/hour.csv",
    "california": "california-housing/housing.csv",
    "elec2": "elec2/elec.csv",
    "etth1": "etth1/ETTh1.csv",
    "parkinsons": "parkinsons-telemonitoring/parkinsons_updrs.csv",
    "penguins": "penguins/penguins.csv",
    "sms": "sms-spam/SMSSpamCollection.tsv",
    "telco": "telco-churn/Telco-Customer-Churn.csv",
    "titanic": "titanic/titanic_train.csv",
}


def read_set(name: str) -> pl.DataFrame:
    """Every column as text."""
    path = FOLDER / _FILES[name]
    if name == "sms":
        return pl.read_csv(
            path,
            separator="\t",
            quote_char=None,
            has_header=False,
            new_columns=["label", "text"],
            infer_schema=False,
        )
    return pl.read_csv(path, infer_schema=False)
