"""Planning of a text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import assert_never, final

from trainwright.contract.sections.data.tokens import TokenData, TokenFeeding
from trainwright.core.errors import Problem
from trainwright.data.read_table import DataFacts
from trainwright.data.text.documents import cut_documents
from trainwright.data.text.packing import count_windows
from trainwright.planner.kinds.data_planner import DataPlanner


@final
class TokenPlanner(DataPlanner[TokenData]):
    """Planning of a text."""

    def train_rows(self) -> int:
        """Windows or documents of an epoch."""
        return max(1, text_rows(self.data, self.contract.model.context_length, self.facts))

    def decisive_problems(self) -> Iterator[Problem]:
        """A text has two windows in each of its sources, or two windows or rows of documents."""
        data, context, facts = self.data, self.contract.model.context_length, self.facts
        if not context:
            return
        tokens = {name: sum(lengths) for name, lengths in facts.documents.items()}
        shortest = min(tokens, key=tokens.__getitem__)
        most = (tokens[shortest] - 1) // 2
        if data.windows == "across" and context > most:
            yield Problem(
                f"the training text{f' of {shortest!r}' if shortest else ''} is shorter than two "
                "windows",
                path="model.context",
                found=f"{tokens[shortest]:,} tokens, windows of {context:,}",
                expected=f"at most {most:,}",
                fix="lower it, or give a longer text",
            )
        elif data.windows != "across":
            yield from few_documents(data, context, facts)


def few_documents(data: TokenFeeding, context: int, facts: DataFacts) -> Iterator[Problem]:
    """Documents that are packed or padded fill two windows or rows."""
    if text_rows(data, context, facts) < 2:
        what = "windows" if data.windows == "packed" else "rows"
        tokens = sum(map(sum, facts.documents.values()))
        yield Problem(
            f"the training documents fill fewer than two {what}",
            path="model.context",
            found=f"{tokens:,} tokens, {what} of at most {context:,}",
            fix="lower it, or give more documents",
        )


def text_rows(data: TokenFeeding, context: int, facts: DataFacts) -> int:
    """Windows or documents of an epoch, if no source is shorter than the context."""
    match data.windows:
        case "across":
            return sum((sum(tokens) - 1) // context - 1 for tokens in facts.documents.values())
        case "packed":
            return count_windows(tuple(facts.documents.values()), context, data.long_documents)
        case "padded":
            every = list(chain.from_iterable(facts.documents.values()))
            return len(cut_documents(every, context, data.long_documents).lengths)
        case _:
            assert_never(data.windows)
