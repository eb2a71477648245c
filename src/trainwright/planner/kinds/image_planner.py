"""Planning of images, alone, in pairs with texts, or with captions to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np

from trainwright.contract.sections.data.captions import CaptionData
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.pairs import PairData
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.token_inputs import AnswerSpans
from trainwright.data.quality.finding import Finding
from trainwright.planner.kinds.data_planner import DataPlanner, rows_after_split


@final
class ImagePlanner(DataPlanner[ImageData]):
    """Planning of images."""

    def train_rows(self) -> int:
        """As the interface says: exact without groups."""
        from trainwright.data.images.prepare_images import split_of

        return rows_after_split(split_of(self.data), self.facts)


@final
class PairPlanner(DataPlanner[PairData]):
    """Planning of image-text pairs."""

    def train_rows(self) -> int:
        """As the interface says: exact where each image has one caption."""
        from trainwright.data.pairs.prepare_pairs import split_of_pairs

        return rows_after_split(split_of_pairs(self.data), self.facts)


@final
class CaptionPlanner(DataPlanner[CaptionData]):
    """Planning of images with captions to write."""

    def train_rows(self) -> int:
        """As the interface says: exact where each image has one caption."""
        from trainwright.data.pairs.prepare_pairs import split_of_pairs

        return rows_after_split(split_of_pairs(self.data), self.facts)

    @property
    def _captions(self) -> AnswerSpans:
        assert not isinstance(self.facts.answers, str), "there are captions"
        return self.facts.answers

    def decisive_problems(self) -> Iterator[Problem]:
        """Each caption begins within the context of the text."""
        context, firsts = self.contract.model.context_length, self._captions.starts
        behind = np.flatnonzero(firsts > context)
        if context and len(behind):
            yield Problem(
                f"of {many(len(behind), 'row')} the caption begins behind the context",
                path="model.decoder.context",
                found=f"{context:,} tokens of text; a caption behind {int(firsts.max()):,}",
                expected=f"room for at least {int(firsts.max()) + 1:,} tokens of text",
                fix="raise it, or shorten what stands before a caption",
            )

    def findings(self) -> Iterator[Finding]:
        """Captions that are longer than the context."""
        context, stops = self.contract.model.context_length, self._captions.stops
        lost = np.clip(stops - context - 1, 0, None)
        touched = np.flatnonzero(lost)
        if not context or not len(touched):
            return
        share = lost.sum() / max(1, self._captions.lengths.sum())
        yield Finding(
            "cut_answers",
            "warning",
            f"{many(len(touched), 'caption of the training table is', 'captions are')} longer than "
            f"the {context:,} tokens of text and cut in the training: {int(lost.sum()):,} tokens, "
            f"{share:.1%} of all",
            len(touched),
            tuple(touched.tolist()),
            fix="raise the context of the decoder",
        )
