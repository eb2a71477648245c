"""Queries of a table as a dataset: a sample is a query with all its rows. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from trainwright.data.base.counter_rng import Positions, even_pieces
from trainwright.data.base.inputs import Integers, Part, TableInputs
from trainwright.data.loading.batch import Batch


@final
class QueryDataset:
    """Q queries. `take` gives their numbers, `query`, int64 [B]; `QueryBatches` gathers their rows,
    so that a micro-batch is as wide as its longest query. The same in every epoch.

    Args:
        part: rows in memory.
        queries: the query of each row, [N].
        device: where the rows lie.
    """

    def __init__(self, part: Part, queries: Integers, device: torch.device) -> None:
        order = np.argsort(queries, kind="stable")
        self.lengths = np.unique(queries, return_counts=True)[1].astype(np.int64)
        self.rows = len(self.lengths)
        table = TableInputs.of_kind(part.inputs).dense()
        tensors = {
            "numeric": torch.tensor(table.numeric[order]),
            "categories": torch.tensor(table.categories[order]),
            "target": torch.tensor(part.target[order]).float(),
        }
        self.tensors = {name: one.to(device) for name, one in tensors.items()}
        self.starts = self.lengths.cumsum() - self.lengths
        a_row = sum(one[0].numel() * one.element_size() for one in tensors.values())
        self.row_bytes = a_row * len(order) // self.rows

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The numbers of these queries."""
        return Batch({"query": torch.from_numpy(rows)}, rows=rows)

    def count_targets(self, epoch: int, rows: Positions) -> int:  # noqa: ARG002
        """A query is one target."""
        return len(rows)


@final
class QueryBatches:
    """Micro-batches of whole queries: the tensors of a table as [B, W, ...] and `target` [B, W], W
    being the rows of the longest query, masked behind the end of each. The mask follows from the
    lengths, so it is known on the host."""

    def __init__(self, store: QueryDataset) -> None:
        self._store = store

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be, of equal sizes."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:  # noqa: ARG002
        """The micro-batch of these queries."""
        store = self._store
        lengths = store.lengths[rows]
        within = np.arange(int(lengths.max(initial=1)))
        counted = within < lengths[:, None]
        places = store.starts[rows][:, None] + np.minimum(within, lengths[:, None] - 1)
        index = torch.from_numpy(places.reshape(-1))

        def gathered(one: Tensor) -> Tensor:
            found = one.index_select(0, index.to(one.device, non_blocking=True))
            return found.view(*places.shape, *one.shape[1:])

        tensors = {name: gathered(one) for name, one in store.tensors.items()}
        return Batch(tensors, rows=rows).with_mask(torch.from_numpy(counted))

    def widest(self, most: int) -> Positions:
        """The micro-batch of at most so many queries that has the most rows."""
        return np.argsort(-self._store.lengths, kind="stable")[:most]


def query_targets(batch: Batch) -> int:
    """Targets of a micro-batch of queries: a query is one."""
    return len(batch[0])
