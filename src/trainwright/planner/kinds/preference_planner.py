"""Planning of preferences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import final

import numpy as np

from trainwright.contract.sections.data.chats import PreferenceData
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.quality.finding import Finding
from trainwright.planner.kinds.data_planner import DataPlanner


@final
class PreferencePlanner(DataPlanner[PreferenceData]):
    """Planning of pairs of answers."""

    def train_rows(self) -> int:
        """Training pairs that fit into a window."""
        return max(1, self._fitting("train"))

    def _fitting(self, part: str) -> int:
        lengths = np.array(self.facts.documents[part])
        if self.data.long_documents != "exclude":
            return len(lengths)
        return int((lengths <= self.contract.model.context_length + 1).sum())

    def findings(self) -> Iterator[Finding]:
        """Pairs that do not fit into a window."""
        context = self.contract.model.context_length
        lengths = {part: np.array(found) for part, found in self.facts.documents.items()}
        over = {part: int((found > context + 1).sum()) for part, found in lengths.items()}
        if count := sum(over.values()):
            message = (
                f"{many(count, 'pair is', 'pairs are')} longer than model.context {context:,} and "
                f"excluded: {over['train']:,} of {len(lengths['train']):,} training pairs, "
                f"{over['others']:,} of {len(lengths['others']):,} others"
            )
            yield Finding("cut_answers", "warning", message, count)

    def decisive_problems(self) -> Iterator[Problem]:
        """Every pair fits into a window, or enough of them are left."""
        context = self.contract.model.context_length
        lengths = np.array(list(chain.from_iterable(self.facts.documents.values())))
        over = int((lengths > context + 1).sum())
        if not context or not over:
            return
        needed = int(lengths.max()) - 1
        if self.data.long_documents == "refuse":
            yield Problem(
                f"{many(over, 'pair is', 'pairs are')} longer than the window",
                path="model.context",
                found=f"{context:,}",
                expected=f"at least {needed:,}",
                fix=f"raise it to {needed}, or write data.long_documents: exclude",
            )
        elif min(self._fitting("train"), self._fitting("others")) < 2:
            yield Problem(
                "hardly a pair fits into the window",
                path="model.context",
                found=f"{context:,}",
                expected="a window for two pairs of each part",
                fix=f"raise it to {needed}",
            )
