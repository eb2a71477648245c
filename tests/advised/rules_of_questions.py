"""Contracts whose questions cannot be asked."""

from __future__ import annotations

import json
from typing import Any

from advised.cases import Case
from mixed_texts import made


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


CHOICES = lines(
    *(
        {"question": f"Is {number} even?", "choices": ["yes", "no"], "answer": number % 2}
        for number in range(8)
    )
)
DIGITS = lines({"question": "Two or one?", "choices": ["1", "2", "0"], "answer": "1"})
FILES = {
    "notes.txt": "\n\n".join(text for _, text in made()),
    "asked.jsonl": CHOICES,
    "others.jsonl": CHOICES.replace("Is ", "Was "),
    "digits.jsonl": DIGITS,
}

CASES = (
    Case("remove questions", ("questions=[{path: asked.jsonl}]",), files=FILES),
    Case(
        "write name: asked-2",
        ("questions=[{path: asked.jsonl}, {path: asked.jsonl}]",),
        "text",
        files=FILES,
    ),
    Case(
        "write for example 0.5",
        ("questions=[{path: asked.jsonl, target: 3}]",),
        "text",
        files=FILES,
    ),
    Case(
        "name a file of other questions, or remove examples",
        ("questions=[{path: asked.jsonl, examples: {path: asked.jsonl, count: 2}}]",),
        "text",
        does=("questions.0.examples.path=others.jsonl",),
        files=FILES,
    ),
    Case(
        "change it to 8",
        ("questions=[{path: asked.jsonl, examples: {path: others.jsonl, count: 20}}]",),
        "text",
        files=FILES,
    ),
    Case(
        "remove prompt, or name one of its columns",
        ("questions=[{path: asked.jsonl, prompt: '{text}?'}]",),
        "text",
        does=('questions.0.prompt="{question}?"',),
        files=FILES,
    ),
    Case(
        "write questions.0.metric: acc",
        ("questions=[{path: asked.jsonl, metric: token_f1}]",),
        "text",
        files=FILES,
    ),
    Case(
        "write questions.0.labels: index or write questions.0.labels: text",
        ("questions=[{path: digits.jsonl}]",),
        "text",
        files=FILES,
    ),
    Case(
        "did you mean 'answer'?",
        ("questions=[{path: asked.jsonl, answer: answers}]",),
        "text",
        files=FILES,
    ),
)
