"""Contracts of chats that contradict themselves, or their chats."""

from __future__ import annotations

import json

from advised.cases import Case

_WORDS = {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2}, "unk_token": "c"}
_NONE = dict.fromkeys(
    ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
)
TOKENIZER = json.dumps({"version": "1.0", **_NONE, "added_tokens": [], "model": _WORDS})


def chats(column: str = "messages", answer: str = "Yes.") -> str:
    """Short chats; the answers of the first twenty are longer."""
    rows = [
        [("user", f"Question {number}?"), ("assistant", answer if number < 20 else "No.")]
        for number in range(40)
    ]
    spelled = [[{"role": who, "content": what} for who, what in row] for row in rows]
    return "".join(json.dumps({column: row}) + "\n" for row in spelled)


FILES = {"chats.jsonl": chats(), "tokenizer.json": TOKENIZER}
LONG = {"chats.jsonl": chats(answer="a" * 40)}
CHATS = "data={kind: chats, path: chats.jsonl, template: plain, vocabulary: bytes}"
BYTES = "model.context=64"

CASES = (
    Case(
        "write template: chatml, or name the tokenizer",
        (CHATS, BYTES, "data.template=tokenizer"),
        "text",
        files=FILES,
    ),
    Case(
        "choose data.template: chatml, llama3 or plain, or add --allow-code",
        (
            CHATS,
            BYTES,
            "data.template=tokenizer",
            "data.vocabulary=tokenizer",
            "data.tokenizer=tokenizer.json",
        ),
        "text",
        does=("data.template=chatml", "data.template=llama3", "data.template=plain"),
        files=FILES,
    ),
    Case("write data.loss_on: [assistant]", (CHATS, BYTES, "data.loss_on=[]"), "text", files=FILES),
    Case(
        "name the column in data.messages",
        (CHATS, BYTES),
        "text",
        does=("data.messages=talk",),
        files={"chats.jsonl": chats("talk")},
    ),
    Case(
        "raise it to 78",
        (CHATS, "model.context=24", "data.long_documents=exclude"),
        "text",
        does=("model.context=78",),
        files=LONG,
    ),
    Case(
        "raise it to 41, or write data.long_documents: exclude",
        (CHATS, "model.context=38"),
        "text",
        does=("model.context=41",),
        files={"chats.jsonl": chats(answer="a" * 40).replace("Question ", "")},
    ),
)
