"""Bytes of text that the tokens of a tokenizer stand for, and what it changes of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.token_inputs import DOCUMENT_END
from trainwright.data.encoders.bpe import count_pieces, list_pieces

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_BLANK: Final = "\u2581"
"""What SentencePiece writes for a blank."""

_DROPPING: Final = frozenset(
    {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit"}
)
"""Pre-tokenizers that leave out what stands between words."""


@lru_cache(maxsize=4)
def count_bytes(text: str) -> npt.NDArray[np.int64]:
    """Bytes in UTF-8 of each token [V] of a tokenizer, as JSON. Special tokens, those of unknown
    words and U+001E behind a document are no text and have none."""
    found = json.loads(text)
    model = found["model"]
    by_bytes = any(rule.get("type") == "ByteLevel" for rule in _rules(found))
    prefix = model.get("continuing_subword_prefix") or ""
    counts = np.zeros(count_pieces(text), dtype=np.int64)
    for token, number in list_pieces(text).items():
        if token == model.get("unk_token") or number == model.get("unk_id"):
            continue
        if _BYTE.fullmatch(token):
            counts[number] = 1
        elif by_bytes:
            # Each byte is a character of its alphabet, U+001E those below U+0021 as theirs + 256.
            counts[number] = len(token) - token.count(_byte_sign(DOCUMENT_END))
        else:
            spelled = token.removeprefix(prefix).replace(_BLANK, " ").replace(DOCUMENT_END, "")
            counts[number] = len(spelled.encode())
    for added in found.get("added_tokens") or ():
        content = str(added["content"]).replace(DOCUMENT_END, "")
        counts[added["id"]] = 0 if added.get("special") else len(content.encode())
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=4)
def changes_of(text: str) -> str:
    """What a tokenizer, as JSON, may change of a text before it cuts it; empty if nothing."""
    changes = list(_changes(json.loads(text)))
    return f"the tokenizer changes the text ({', '.join(changes)})" if changes else ""


def _changes(found: Mapping[str, Any]) -> Iterator[str]:
    yield from (rule["type"] for rule in _flat(found.get("normalizer")))
    for rule in _flat(found.get("pre_tokenizer")):
        kind = rule["type"]
        removes = str(rule.get("behavior", "")).lower() == "removed"
        begins = kind == "Metaspace" and rule.get("prepend_scheme", "always") != "never"
        if kind in _DROPPING or removes or begins or rule.get("add_prefix_space") is True:
            yield kind


def _rules(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in ("pre_tokenizer", "decoder"):
        yield from _flat(found.get(part))


def _flat(rule: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(rule, dict):
        return
    if rule.get("type") != "Sequence":
        yield rule
        return
    for inner in ("normalizers", "pretokenizers", "decoders"):
        for one in rule.get(inner) or ():
            yield from _flat(one)


def _byte_sign(character: str) -> str:
    """The sign that byte-level tokenizers write for a control character below U+0021."""
    return chr(ord(character) + 256)
