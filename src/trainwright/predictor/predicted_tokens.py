"""The likeliest tokens of a decoder at each target of a text. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import Tensor
from torch.nn import functional

from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import SoftTokens, TokenInputs, token_dtype
from trainwright.data.sources.cache import SOFT_TOKENS
from trainwright.data.text.eval_windows import EvalWindows, cut_windows
from trainwright.predictor.network_scorer import NetworkScorer

_POSITIONS, _TOKENS, _LOGS = SOFT_TOKENS
_PLACES, _LOGITS = 2**13, 2**25
_NONE = -100.0
"""Log-probability of no other token, whose exponential is 0 in fp32."""


def predict_tokens(
    scorer: NetworkScorer, inputs: TokenInputs, outputs: int, top: int, temperature: float
) -> Iterator[tuple[Integers, npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Of each target, in no order: its position [N], the `top` likeliest of the first `outputs`
    tokens [N, K], and their log-probabilities with that of all others together [N, K + 1], at a
    temperature.

    A token is predicted from as many tokens of its document as the model reads, as in an
    evaluation.
    """
    network = scorer.network
    assert not network.training, "a teacher is in evaluation mode"
    device = next(network.parameters()).device
    for windows in cut_windows(inputs, scorer.context):
        rows = max(1, min(_PLACES, _LOGITS // scorer.shape.outputs) // windows.length)
        for start in range(0, len(windows.starts), rows):
            part = windows.between(start, start + rows)
            tokens = torch.from_numpy(part.tokens(0).astype(np.int64)).to(device)
            with torch.no_grad():
                logits = network(tokens)[:, -part.predicted :, :outputs]
            counted = part.counted()
            kept = logits[torch.from_numpy(counted).to(device)].float() / temperature
            likeliest, logs = _likeliest(kept, top)
            places = _positions(part)[counted]
            yield places, likeliest.cpu().numpy(), logs.cpu().numpy().astype(np.float32)


def write_predicted(
    folder: Path,
    scorer: NetworkScorer,
    inputs: TokenInputs,
    outputs: int,
    top: int,
    temperature: float,
) -> None:
    """Write what `predict_tokens` gives into a folder, by position."""
    positions = target_positions(inputs)
    shape = (len(positions), top)
    tokens = open_memmap(folder / _TOKENS, "w+", np.dtype(token_dtype(outputs)), shape)
    logs = open_memmap(folder / _LOGS, "w+", np.dtype(np.float32), (shape[0], top + 1))
    for places, found, each in predict_tokens(scorer, inputs, outputs, top, temperature):
        at = np.searchsorted(positions, places)
        tokens[at], logs[at] = found, each
    tokens.flush()
    logs.flush()
    np.save(folder / _POSITIONS, positions, allow_pickle=False)


def read_predicted(folder: Path) -> SoftTokens:
    """What `write_predicted` wrote, mapped."""

    def mapped(name: str) -> npt.NDArray[np.generic]:
        found: npt.NDArray[np.generic] = np.load(folder / name, mmap_mode="r", allow_pickle=False)
        return found

    positions = np.asarray(mapped(_POSITIONS), np.int64)
    return SoftTokens(positions, mapped(_TOKENS), mapped(_LOGS))  # type: ignore[arg-type]


def target_positions(inputs: TokenInputs) -> Integers:
    """Positions of the targets that count, ascending."""
    lengths = inputs.lengths
    offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    positions = np.repeat(inputs.starts, lengths) + offsets
    if not isinstance(inputs.mask, str):
        positions = positions[inputs.mask[positions]]
    return np.unique(positions)


class _Likeliest(NamedTuple):
    tokens: Tensor
    logs: Tensor


def _likeliest(logits: Tensor, top: int) -> _Likeliest:
    """The tokens [N, K] with the largest logits [N, V], and the log-probabilities [N, K + 1]."""
    log_p = functional.log_softmax(logits, dim=-1)
    found, tokens = log_p.topk(top, dim=-1)
    if top == logits.shape[-1]:
        others = torch.full_like(found[:, :1], _NONE)
    else:
        others = log_p.scatter(-1, tokens, -math.inf).logsumexp(dim=-1, keepdim=True)
    return _Likeliest(tokens, torch.cat([found, others.clamp_min(_NONE)], dim=-1))


def _positions(windows: EvalWindows) -> Integers:
    """Positions of the scored targets, [W, predicted]."""
    ahead = np.arange(1, windows.length + 1)[-windows.predicted :]
    positions: Integers = windows.starts[:, None] + ahead
    return positions
