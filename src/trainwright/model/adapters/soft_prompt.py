"""Trained vectors in the place of tokens, by PEFT. Needs torch and PEFT."""

from __future__ import annotations

from torch import nn

from trainwright.contract.sections.model.adapter import PromptTuning
from trainwright.model.adapters.inject_adapter import quiet_kernels
from trainwright.model.adapters.need_peft import need_peft


def build_prompt(adapter: PromptTuning, embedding: nn.Embedding) -> nn.Module:
    """An embedding of the vectors [N, D], of which `embedding.weight` is the parameter. They start
    as rows of the embedding of tokens, drawn from torch's global generator (Lester et al. 2021,
    section 3.2).

    Raises:
        MissingExtra: PEFT is not installed.
    """
    need_peft()
    with quiet_kernels():
        from peft import PromptEmbedding, PromptTuningConfig
        from peft.tuners.prompt_tuning import PromptTuningInit
    config = PromptTuningConfig(
        num_virtual_tokens=adapter.tokens,
        token_dim=embedding.embedding_dim,
        num_transformer_submodules=1,
        prompt_tuning_init=PromptTuningInit.SAMPLE_VOCAB,
    )
    prompt: nn.Module = PromptEmbedding(config, embedding)  # type: ignore[no-untyped-call]
    return prompt
