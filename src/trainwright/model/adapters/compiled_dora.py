"""DoRA under torch's compiler. Needs torch; PEFT where a network has an adapter."""

from __future__ import annotations

import sys
from functools import cache

import torch
from torch import nn

_QUANTIZED = ("Params4bit", "Int8Params")


def let_compiler_read_weights() -> None:
    """Let a compiler trace how DoRA reads the matrix of its base, where PEFT is imported: PEFT asks
    for the module of the matrix's class, at which a graph breaks."""
    if "peft" in sys.modules:
        _substitute()


@cache
def _substitute() -> None:
    from peft.utils.integrations import dequantize_module_weight

    @torch.compiler.substitute_in_graph(dequantize_module_weight, skip_signature_check=True)
    def read_weight(module: nn.Module) -> nn.Parameter:
        weight = module.get_parameter("weight")
        assert type(weight).__name__ not in _QUANTIZED, "the rules refuse a quantised one"
        return weight
