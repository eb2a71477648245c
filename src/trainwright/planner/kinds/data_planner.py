"""What the planner asks of a kind of data, and the planner of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.split import ColumnSplit, FileSplit, Split, StratifiedSplit
from trainwright.core.errors import Problem
from trainwright.core.lazy_imports import LazyTable
from trainwright.data.quality.finding import Finding
from trainwright.data.read_table import DataFacts
from trainwright.data.split.random_split import Shares
from trainwright.data.split.splits import rows_of_class

S = TypeVar("S", bound=Feeding)
_HERE = "trainwright.planner.kinds"

PLANNERS: Mapping[str, type[DataPlanner[Any]]] = LazyTable(
    {
        "table": f"{_HERE}.table_planner:TablePlanner",
        "images": f"{_HERE}.image_planner:ImagePlanner",
        "tokens": f"{_HERE}.token_planner:TokenPlanner",
        "chats": f"{_HERE}.chat_planner:ChatPlanner",
        "preferences": f"{_HERE}.chat_planner:PreferencePlanner",
        "series": f"{_HERE}.series_planner:SeriesPlanner",
        "pairs": f"{_HERE}.image_planner:PairPlanner",
        "captions": f"{_HERE}.image_planner:CaptionPlanner",
    }
)
"""By the kind of the `data` section, where it has more to say than a `RowPlanner`."""


class DataPlanner(ABC, Generic[S]):
    """Size and problems of one kind of data under a contract, from its `facts`."""

    def __init__(self, contract: Contract, data: S, facts: DataFacts) -> None:
        self.contract = contract
        self.data = data
        self.facts = facts

    @abstractmethod
    def train_rows(self) -> int:
        """Training rows after the split, at least 1; for a text the windows or documents of an
        epoch.

        A split by column or file is only known once it is made: here every row counts. With folds
        the run's own model trains on all rows but the validation rows.
        """

    def encoded_bytes(self) -> int:
        """Memory of all encoded rows: as in their files; packed images take about half as much
        there."""
        return sum(file.size_bytes for file in self.facts.files) * 2

    def kinds_of_features(self) -> Mapping[str, str]:
        """The kind of each feature column by its name; empty without columns."""
        return {}

    def decisive_problems(self) -> Iterator[Problem]:
        """Problems that would make every other one wrong."""
        return iter(())

    def column_problems(self) -> Iterator[Problem]:
        """Columns named by the contract must exist."""
        return iter(())

    def problems(self, _written: frozenset[str]) -> Iterator[Problem]:
        """All other problems of the section."""
        return iter(())

    def findings(self) -> Iterator[Finding]:
        """What is worth a look before the training, though nothing is wrong."""
        return iter(())

    def storage_problems(self) -> Iterator[Problem]:
        """Problems with where the rows are stored."""
        return iter(())


@final
class RowPlanner(DataPlanner[Feeding]):
    """Planning of a kind of data with nothing special: rows that are divided by shares."""

    def train_rows(self) -> int:
        """What the shares of the section leave."""
        _, shares = self.data.part_shares
        rows = self.facts.part_rows["train"]
        return max(1, rows - sum(round(rows * share) for share in shares.values()))


def rows_after_split(split: Split, facts: DataFacts) -> int:
    """Training rows that a split leaves, at least 1; all of them where only a column or a file says
    which they are."""
    rows = facts.part_rows["train"]
    shares = Shares.of(split, facts.given)
    match split:
        case ColumnSplit() | FileSplit():
            return rows
        case StratifiedSplit() if facts.target.classes:
            taken = sum(sum(rows_of_class(n, shares)) for n in facts.target.classes.values())
        case _:
            taken = round(rows * shares.validation) + round(rows * shares.test)
    return max(1, rows - taken)


def planner_of(contract: Contract, facts: DataFacts) -> DataPlanner[Any]:
    """The planner of the contract's data."""
    planner = PLANNERS.get(contract.data.kind, RowPlanner)
    return planner(contract, contract.data, facts)
