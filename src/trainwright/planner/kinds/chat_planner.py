"""Planning of chats and of pairs of answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import final

import numpy as np

from trainwright.contract.sections.data.chats import ChatData, PreferenceData
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import some
from trainwright.data.base.token_inputs import AnswerSpans
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
