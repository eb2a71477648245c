"""`data` of `kind: text_pairs`: queries, each with the passage that answers it."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.data.pairs import CaptionTokens, RetrievalData
from trainwright.contract.sections.section import Fraction


class TextPairData(RetrievalData):
    """Queries with a passage each, for embeddings by which passages are found."""

    kind: Literal["text_pairs"]

    path: str
    """A table with a row for each pair (`.csv`, `.parquet`, ...), relative to the contract's
    folder. A query with several passages has several rows. Its other columns serve `slices`."""

    val_path: str = ""
    """The pairs that steer the training, where they stand apart."""

    test_path: str = ""
    """The pairs opened once, for the verdict, where they stand apart. The passages among which one
    is sought are those of this part: another number of them is another task."""

    query: str = "query"
    """The column with the text that is asked."""

    passage: str = "passage"
    """The column with the text that is to be found."""

    negatives: tuple[str, ...] = ()
    """Columns of hard negatives: passages that do not answer the query of the row, though they are
    near. A cell may be empty. `trainwright mine` finds some."""

    group: str = ""
    """The column that names the group of a pair: pairs of one group fall on the same side of the
    split. Empty: those of one query do."""

    tokens: CaptionTokens = CaptionTokens()
    """Tokens of queries and passages."""

    validation: Fraction = 0.15
    """Share of the pairs that steers the training, by whole groups. Unused where validation pairs
    stand apart."""

    test: Fraction = 0.15
    """Share of the pairs opened once, for the verdict. Unused where test pairs stand apart."""

    form: ClassVar[str] = "text_pairs"
    usual_metric: ClassVar[tuple[str, str]] = (
        "passage_ndcg_at_10",
        "passages are found by queries",
    )
    is_one_way: ClassVar[bool] = True

    @property
    def further_baselines(self) -> tuple[str, ...]:
        """The usual score of words."""
        return ("bm25",)
