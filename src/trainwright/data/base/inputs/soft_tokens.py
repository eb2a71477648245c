"""What a teacher predicts of the tokens of a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Integers
from trainwright.data.base.token_dtype import Tokens

TEACHER_TOKENS, TEACHER_LOGS = "teacher_tokens", "teacher_logs"
"""Names of the teacher's tokens and log-probabilities in a batch."""


@final
@dataclass(frozen=True, slots=True)
class SoftTokens:
    """Of P positions [P] (ascending) the K likeliest tokens [P, K] of a teacher, and their
    log-probabilities at its temperature, float32 [P, K + 1]; the last is that of all other tokens
    together. All may be memory-mapped."""

    positions: Integers
    tokens: Tokens
    log_probabilities: npt.NDArray[np.float32]

    @property
    def kept(self) -> int:
        """K."""
        return int(self.tokens.shape[1])


def _untaught() -> SoftTokens:
    none = np.zeros((0, 1), np.uint32)
    return SoftTokens(np.zeros(0, np.int64), none, np.zeros((0, 2), np.float32))


@final
@dataclass(frozen=True, slots=True)
class TaughtTokens(TokenInputs):
    """Segments whose tokens a teacher predicted."""

    soft: SoftTokens = field(default_factory=_untaught)

    def beside(self, positions: Integers) -> Mapping[str, npt.NDArray[Any]]:
        """`teacher_tokens` int32 [N, K] and `teacher_logs` float32 [N, K + 1] of targets at these
        positions [N]; what stands at one that does not count is without meaning."""
        known = self.soft.positions
        at = np.minimum(np.searchsorted(known, positions), len(known) - 1)
        assert not isinstance(self.mask, str) or bool((known[at] == positions).all())
        return {
            TEACHER_TOKENS: self.soft.tokens[at].astype(np.int32),
            TEACHER_LOGS: self.soft.log_probabilities[at],
        }

    @property
    def beside_bytes(self) -> int:
        """Of one position."""
        return 8 * self.soft.kept + 4
