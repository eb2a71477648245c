"""Rotary positions (RoPE: Su et al. 2021, arXiv:2104.09864, section 3.2.2)."""

from __future__ import annotations

import math
from typing import assert_never

import torch
from jaxtyping import Float
from torch import Tensor

from trainwright.contract.sections.model.gpt import Gpt, LinearScaling, Llama3Scaling


def rotary_angles(section: Gpt) -> tuple[Float[Tensor, "C d"], Float[Tensor, "C d"]]:
    """Cosine and sine of position x frequency, for C positions and half of the features of a
    head."""
    half = section.head_width // 2
    frequencies = section.rotary_base ** (-torch.arange(half, dtype=torch.float64) / half)
    places = torch.arange(section.context + section.prompt_length, dtype=torch.float64)
    angles = torch.outer(places, _scaled(frequencies, section))
    return angles.cos().float(), angles.sin().float()


def _scaled(frequencies: Tensor, section: Gpt) -> Tensor:
    match section.rotary_scaling:
        case "none":
            return frequencies
        case LinearScaling(factor=factor):
            return frequencies / factor
        case Llama3Scaling() as scaling:
            turns = scaling.original_context * frequencies / (2 * math.pi)
            between = scaling.high_frequency - scaling.low_frequency
            kept = ((turns - scaling.low_frequency) / between).clamp(0, 1)
            return frequencies * (kept + (1 - kept) / scaling.factor)
        case _:
            assert_never(section.rotary_scaling)


def apply_rotary(
    x: Float[Tensor, "*B L d"], turn: tuple[Tensor, Tensor]
) -> Float[Tensor, "*B L d"]:
    """Rotate each pair of features (i, i + d / 2) by the angle of its position."""
    cosines, sines = (part.to(x.dtype) for part in turn)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, first * sines + second * cosines], dim=-1)
