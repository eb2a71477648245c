"""Text pairs as a dataset. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.base.inputs.text_pair_inputs import TextPairInputs
from trainwright.data.base.permutation import Positions, even_pieces
from trainwright.data.base.table import Integers
from trainwright.data.loading.batch import Batch

_SIDES = ("query", "passage", "negative")


@final
class TextPairDataset:
    """N text pairs: `query_ids`, `query_mask`, `passage_ids` and `passage_mask` int64 [B, W], with
    K hard negatives `negative_ids` and `negative_mask` [B, K, W], W the width of the longest text
    of all, and `target` int64 [B, 2 + K + M], the codes of `learned_codes`."""

    def __init__(
        self, inputs: TextPairInputs, target: npt.NDArray[np.int64], device: torch.device
    ) -> None:
        self._inputs = inputs
        self._target = torch.from_numpy(np.ascontiguousarray(target)).to(device)
        self._device = device
        each = (inputs.queries, inputs.passages, *inputs.negatives)
        self.widths = {
            "query": inputs.queries.lengths,
            "passage": inputs.passages.lengths,
            "negative": _longest(inputs.negatives, len(inputs)),
        }
        self._width = max(int(one.lengths.max(initial=1)) for one in each)
        self.rows = len(inputs)
        self.row_bytes = 16 * self._width * len(each) + 8 * target.shape[1]

    @property
    def lengths(self) -> Integers:
        """Tokens of the longest text of each pair, int64 [N]."""
        return np.asarray(np.stack(list(self.widths.values())).max(axis=0))

    def take(self, _epoch: int, rows: Positions) -> Batch:
        """These pairs."""
        tensors: dict[str, Tensor] = {}
        for side, texts in (("query", self._inputs.queries), ("passage", self._inputs.passages)):
            arrays = texts.padded(rows, self._width)
            tensors[f"{side}_ids"] = self._tensor(arrays["input_ids"])
            tensors[f"{side}_mask"] = self._tensor(arrays["attention_mask"])
        if self._inputs.negatives:
            hard = [one.padded(rows, self._width) for one in self._inputs.negatives]
            for name, array in (("ids", "input_ids"), ("mask", "attention_mask")):
                stacked = np.stack([one[array] for one in hard], axis=1)
                tensors[f"negative_{name}"] = self._tensor(stacked)
        at = torch.from_numpy(np.asarray(rows, np.int64)).to(self._device)
        return Batch({**tensors, "target": self._target[at]}, rows=rows)

    def _tensor(self, array: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


@final
class TextPairBatches:
    """Micro-batches of text pairs, each side cut to the width of its longest text."""

    def __init__(self, store: TextPairDataset) -> None:
        self._widths = store.widths
        self._lengths = store.lengths

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be, of equal sizes."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these pairs."""
        cut: dict[str, Tensor] = {}
        for side in _SIDES:
            width = int(self._widths[side][rows].max(initial=1))
            for name in (f"{side}_ids", f"{side}_mask"):
                if name in batch:
                    cut[name] = batch[name][..., :width].contiguous()
        return batch.with_tensors(**cut)

    def widest(self, most: int) -> Positions:
        """The micro-batch of at most so many pairs with the longest texts."""
        return np.argsort(-self._lengths, kind="stable")[:most]


def _longest(texts: Sequence[TextInputs], rows: int) -> Integers:
    """Tokens of the longest text of each row [N]."""
    if not texts:
        return np.ones(rows, dtype=np.int64)
    return np.asarray(np.stack([one.lengths for one in texts]).max(axis=0))
