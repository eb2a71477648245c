"""Queries of a ranking in the parts of a split: whole, and able to teach an order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import GroupSplit, TimeSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.columns.retrieval_targets import Relevance, fit_relevance
from trainwright.data.columns.target import Target
from trainwright.data.split.time_split import moments, time_units


def check_named_queries(frames: Mapping[PartName, pl.DataFrame], section: TableData) -> None:
    """Check that every row names its query, and that no group of the split divides one.

    Raises:
        DataMistake: some do not, or some groups do.
    """
    query, split = section.query, section.split
    target = Relevance(section.target_name, query)
    for frame in frames.values():
        target.queries(frame)

    if not isinstance(split, GroupSplit) or split.column == query:
        return
    columns = [
        frame.select(pl.col(query, split.column).cast(pl.String)) for frame in frames.values()
    ]
    groups = pl.concat(columns).unique()[query].value_counts()["count"]
    if divided := int((groups > 1).sum()):
        raise DataMistake(
            Problem(
                f"{many(divided, 'query has', 'queries have')} rows of several groups",
                path="data.split.column",
                found=f"{query!r} in groups of {split.column!r}",
                expected="every query in one group; without data.split the queries are divided",
                fix="remove data.split",
            )
        )


def check_whole_queries(frames: Mapping[PartName, pl.DataFrame], section: TableData) -> None:
    """Check that no query is in two parts.

    Raises:
        DataMistake: some are, each of them a leak.
    """
    query = section.query
    each = [frame.select(pl.col(query).cast(pl.String).unique()) for frame in frames.values()]
    together = pl.concat(each)[query]
    torn = len(together) - together.n_unique()
    if torn:
        raise DataMistake(
            Problem(
                f"{many(torn, 'query has', 'queries have')} rows in more than one part",
                path="data.split",
                found=f"a split of kind {section.split.kind}",
                expected="all rows of a query in one part",
                fix=f"write data.split: {{kind: group, column: {query}}}, or give each file "
                "queries of its own",
            )
        )


def fit_queries(train: pl.DataFrame, section: TableData) -> Target:
    """The target of training rows with typed relevances.

    Raises:
        DataMistake: in no query has one row another relevance than the others.
    """
    target = fit_relevance(train[section.target_name], section.query)
    found = train.group_by(section.query).agg(pl.col(section.target_name).n_unique().alias("n"))
    if not (found["n"] > 1).any():
        raise DataMistake(
            Problem(
                "no query of the training rows has rows of different relevance",
                path="data.query",
                found=f"{many(found.height, 'query', 'queries')} by {section.query!r}",
                expected="queries with more and less relevant rows",
                fix="name the column whose rows are ranked against each other",
            )
        )
    return target


def query_units(frame: pl.DataFrame, section: TableData, target: Target) -> Integers:
    """The independent unit of each row, int64 [N]: its query, or of a time split a block of
    queries that follow each other, by the first moment of each."""
    codes = target.queries(frame)
    assert codes is not None
    if not isinstance(section.split, TimeSplit):
        return codes
    names, member = np.unique(codes, return_inverse=True)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, member, moments(frame, section.split.moment))
    return time_units(first)[member]
