"""Planning of chats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np

from trainwright.contract.sections.data.chats import ChatData
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.messages import some
from trainwright.data.base.table import Integers
from trainwright.data.columns.target_column import AnswerSpans
from trainwright.data.quality.finding import Finding
from trainwright.planner.kinds.data_planner import DataPlanner
from trainwright.planner.kinds.token_planner import few_documents, text_rows

_MOST_NAMED = 5
_FEWEST = 2


@final
class ChatPlanner(DataPlanner[ChatData]):
    """Planning of chats."""

    @property
    def _answers(self) -> AnswerSpans:
        assert not isinstance(self.facts.answers, str), "chats have answers"
        return self.facts.answers

    @property
    def _context(self) -> int:
        return self.contract.model.context_length

    def train_rows(self) -> int:
        """Windows or chats of an epoch."""
        return max(1, text_rows(self.data, self._context, self.facts))

    def decisive_problems(self) -> Iterator[Problem]:
        """Each training chat has an answer in its window, and none is longer than one."""
        if not self._context:
            return
        if wrong := list(self._long_answers()):
            yield from wrong
        elif self.data.long_documents == "exclude" and self._short_chats() < _FEWEST:
            longest = max(self.facts.documents[""]) - 1
            yield Problem(
                "hardly a training chat fits into the window",
                path="model.context",
                found=f"{self._context:,}, with data.long_documents: exclude",
                expected=f"up to {longest:,}, which all of them fit into",
                fix=f"raise it to {longest}",
            )
        else:
            yield from few_documents(self.data, self._context, self.facts)

    def _short_chats(self) -> int:
        return sum(length - 1 <= self._context for length in self.facts.documents[""])

    def _long_answers(self) -> Iterator[Problem]:
        if self.data.long_documents == "exclude":
            return
        answers, context = self._answers, self._context
        firsts = answers.firsts()
        needed = max(int(answers.lengths.max()), int(firsts.max()))
        whole = f"raise it to {needed}, or write data.long_documents: exclude"
        longest = answers.chats[answers.lengths > context]
        behind = np.flatnonzero(firsts > context)
        if len(longest):
            yield Problem(
                f"{many(len(longest), 'answer is', 'answers are')} longer than the window",
                path="model.context",
                found=f"{context:,}; up to {int(answers.lengths.max()):,} tokens in "
                f"{self._lines(longest)}",
                expected=f"at least {needed:,}",
                fix=whole,
            )
        elif len(behind):
            yield Problem(
                f"of {many(len(behind), 'chat')} the first answer begins behind the window",
                path="model.context",
                found=f"{context:,}; behind {int(firsts.max()):,} tokens in {self._lines(behind)}",
                expected=f"at least {needed:,}",
                fix=whole,
            )

    def findings(self) -> Iterator[Finding]:
        """Training chats that are longer than the window, and what their answers lose."""
        lengths = np.array(self.facts.documents[""])
        over = lengths - 1 > self._context
        if not self._context or not over.any():
            return
        answers = self._answers
        end = self._context + 1
        is_whole = self.data.long_documents == "exclude"
        kept = np.where(over, 0, end) if is_whole else np.full(len(over), end)
        lost = np.clip(answers.stops - np.maximum(answers.starts, kept[answers.chats]), 0, None)
        touched = np.flatnonzero(lost)
        share = lost.sum() / max(1, answers.lengths.sum())
        become = "excluded" if is_whole else "cut"
        names = self._lines(answers.chats[touched]) if len(touched) else ""
        message = (
            f"{many(int(over.sum()), 'training chat is', 'training chats are')} longer than "
            f"model.context {self._context:,} and {become}: "
            f"{many(len(touched), 'answer')}{' in ' if names else ''}{names} "
            f"{'loses' if len(touched) == 1 else 'lose'} {int(lost.sum()):,} tokens, {share:.1%} "
            "of all that are learned"
        )
        yield Finding(
            "cut_answers",
            "warning" if len(touched) else "info",
            message,
            len(touched),
            tuple(np.unique(answers.rows[answers.chats[touched]]).tolist()),
            fix=f"raise model.context to {int(lengths.max()) - 1}" if len(touched) else "",
        )

    def _lines(self, chats: Integers) -> str:
        lines = [self._answers.lines[chat] for chat in dict.fromkeys(chats.tolist())]
        return some(lines, _MOST_NAMED, len(lines))
