"""LoRA as transformers and PEFT do it, in a loop that holds nothing that it does not need."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

Stage = Callable[[str], AbstractContextManager[None]]


def train(folder: Path, steps: int, stage: Stage) -> None:
    """Train `folder`/base on the tokens of `folder`/text.txt, as `folder`/setting.json says; the
    losses are printed."""
    setting = json.loads((folder / "setting.json").read_text(encoding="utf-8"))
    with stage("read"):
        import torch
        from peft import LoraConfig, get_peft_model
        from tokenizers import Tokenizer
        from transformers import AutoModelForCausalLM

        torch.manual_seed(0)
        context, batch = setting["context"], setting["batch"]
        text = (folder / "text.txt").read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(folder / "base" / "tokenizer.json"))
        tokens = torch.tensor(tokenizer.encode(text).ids)
        windows = tokens[: len(tokens) // context * context].view(-1, context)
        model = AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32)
        if setting["activation_checkpointing"]:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.enable_input_require_grads()
        config = LoraConfig(
            r=setting["rank"], lora_alpha=2 * setting["rank"], target_modules="all-linear"
        )
        model = get_peft_model(model, config).train()
        model.config.use_cache = False
        trained = [one for one in model.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    short = setting["precision"] == "bf16"
    losses = []
    with stage("train"):
        for step in range(steps):
            rows = torch.arange(step * batch, (step + 1) * batch) % len(windows)
            inputs = windows[rows]
            with torch.autocast("cpu", torch.bfloat16) if short else nullcontext():
                loss = model(input_ids=inputs, labels=inputs).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
    print(losses)
