"""Chats divided by their prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainwright.contract.sections.data.chats import Role
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Integers
from trainwright.data.chats.chat_messages import Chat

_KEY_BYTES = 8
_BETWEEN = "\x1f"
_PARTS = 3


class PromptGroups(NamedTuple):
    """The prompt of each chat and its part (0 training, 1 validation, 2 test), int64 [N]."""

    prompts: Integers
    parts: Integers


class PartShares(NamedTuple):
    """PartShares of the validation and the test part."""

    validation: float
    test: float


def split_chats(chats: Sequence[Chat], roles: Sequence[Role], shares: PartShares) -> PromptGroups:
    """Divide chats so that those of one prompt are in one part.

    Prompts are ordered by their BLAKE2b hash; the first have the validation part, the next the test
    part. So the order of the rows does not matter.

    Raises:
        DataMistake: there are too few prompts for three parts.
    """
    keys = [_key(chat, roles) for chat in chats]
    hashes, prompts = np.unique(np.array(keys, dtype=np.uint64), return_inverse=True)
    if len(hashes) < _PARTS:
        raise _too_few(len(hashes), len(chats))
    ends = np.cumsum(np.bincount(prompts))
    validation = _upto(ends, 0, shares.validation, len(chats), 2)
    test = _upto(ends, validation, shares.test, len(chats), 1)
    of_prompt = np.zeros(len(hashes), dtype=np.int64)
    of_prompt[:validation], of_prompt[validation:test] = 1, 2
    return PromptGroups(prompts.astype(np.int64), of_prompt[prompts])


def _upto(ends: Integers, first: int, share: float, chats: int, left: int) -> int:
    """Where a part ends that begins at the prompt `first`: at its share of the chats, with at least
    one prompt, and so that at least `left` prompts are left."""
    before = int(ends[first - 1]) if first else 0
    wanted = before + max(1, round(chats * share))
    end = int(np.searchsorted(ends, wanted)) + 1
    return min(end, len(ends) - left)


def _key(chat: Chat, roles: Sequence[Role]) -> int:
    """Hash of what stands before the first answer, whatever the system message, white space and
    case; of a chat that begins with an answer, of this."""
    first = next(at for at, one in enumerate(chat.messages) if one.role in roles)
    asked = [one.content for one in chat.messages[:first] if one.role != "system"]
    words = (" ".join(text.casefold().split()) for text in asked or [chat.messages[first].content])
    digest = hashlib.blake2b(_BETWEEN.join(words).encode(), digest_size=_KEY_BYTES).digest()
    return int.from_bytes(digest, "little")


def _too_few(prompts: int, chats: int) -> DataMistake:
    return DataMistake(
        Problem(
            "there are too few prompts for a training, a validation and a test part",
            path="data.path",
            found=f"{prompts:,} different prompts in {chats:,} chats",
            expected=f"at least {_PARTS}",
            fix="give more chats",
        )
    )
