"""The CPU recipe that nanoGPT's README publishes, made again: what benchmarks/shakespeare.py times.

python benchmarks/nanogpt.py TRAIN_BIN VAL_BIN OUT --vocabulary N

A GPT-2 of 4 layers, 4 heads and width 128 sees 64 characters; 2,001 steps of 12 windows, AdamW with
warmup and half a cosine, all in fp32 without compiling. Every 250 steps the loss of both splits is
estimated on 20 random batches, and a checkpoint is written when that of the validation fell.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXT, BATCH, LAYERS, HEADS, WIDTH = 64, 12, 4, 4, 128
STEPS, WARMUP, EVERY, ESTIMATES = 2000, 100, 250, 20
PEAK, FLOOR, DECAY, BETAS, MAX_NORM = 1e-3, 1e-4, 0.1, (0.9, 0.99), 1.0
SEED = 1337


@final
class Norm(nn.Module):
    """Layer norm without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), self.weight)


@final
class Block(nn.Module):
    """Attention and a feed-forward layer of GELU, each behind a norm and beside a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.before_mixing, self.before_thinking = Norm(), Norm()
        self.mixing = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.mixed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = self.mixing(self.before_mixing(x)).split(WIDTH, dim=2)
        heads = (part.view(rows, length, HEADS, -1).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).contiguous().view(rows, length, WIDTH))
        out: Tensor = x + self.narrow(functional.gelu(self.widen(self.before_thinking(x))))
        return out


@final
class Gpt(nn.Module):
    """Characters [B, L] with the ones after them [B, L] to logits [B, L, V] and their mean loss."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                ends = name.endswith(("mixed.weight", "narrow.weight"))
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * LAYERS) if ends else 0.02)

    def forward(self, seen: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        x = self.characters(seen) + self.places(torch.arange(seen.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.characters.weight)
        return logits, functional.cross_entropy(logits.flatten(0, 1), after.flatten())


@final
@dataclass(frozen=True)
class Split:
    """Characters uint16 in a file, mapped anew for each batch."""

    file: Path

    def batch(self) -> tuple[Tensor, Tensor]:
        """Random windows and what comes after each character, int64 [B, L] each."""
        text = np.memmap(self.file, dtype=np.uint16, mode="r")
        starts = torch.randint(len(text) - CONTEXT, (BATCH,)).tolist()
        windows = [torch.from_numpy(text[s : s + CONTEXT + 1].astype(np.int64)) for s in starts]
        seen = torch.stack([window[:-1] for window in windows])
        return seen, torch.stack([window[1:] for window in windows])


def learning_rate(step: int) -> float:
    """A straight line up, then half a cosine down to the floor."""
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / (STEPS - WARMUP)
    return FLOOR + 0.5 * (1 + math.cos(math.pi * share)) * (PEAK - FLOOR)


@torch.no_grad()
def estimate(model: Gpt, split: Split) -> float:
    """The mean loss of random batches."""
    model.eval()
    losses = torch.zeros(ESTIMATES)
    for number in range(ESTIMATES):
        losses[number] = model(*split.batch())[1].item()
    model.train()
    return float(losses.mean())


@torch.no_grad()
def exact_loss(model: nn.Module, file: Path) -> float:
    """The mean loss of all windows of a split, side by side: what the estimate has as its
    expectation, but for the last few characters."""
    text = torch.from_numpy(np.fromfile(file, dtype=np.uint16).astype(np.int64))
    count = (len(text) - 1) // CONTEXT
    seen = text[: count * CONTEXT].view(count, CONTEXT)
    after = text[1 : count * CONTEXT + 1].view(count, CONTEXT)
    model.eval()
    parts = zip(seen.split(BATCH), after.split(BATCH), strict=True)
    return sum(model(x, y)[1].item() * len(x) for x, y in parts) / count


def make_model(vocabulary: int) -> Gpt:
    """The model with its first weights."""
    torch.manual_seed(SEED)
    return Gpt(vocabulary)


def train(train_file: Path, val_file: Path, out: Path, vocabulary: int, steps: int = STEPS) -> None:
    """The whole recipe; `checkpoint.pt` holds the best weights, `estimates.json` what was seen."""
    model = make_model(vocabulary)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS)
    train_split, val_split = Split(train_file), Split(val_file)
    best, estimates = math.inf, []
    batch = train_split.batch()
    for step in range(steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        if step % EVERY == 0:
            of_train, of_val = estimate(model, train_split), estimate(model, val_split)
            estimates.append([step, of_train, of_val])
            print(f"step {step}: train loss {of_train:.4f}, val loss {of_val:.4f}")
            if of_val < best:
                best = of_val
                if step:
                    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(held, out / "checkpoint.pt")
        loss = model(*batch)[1]
        batch = train_split.batch()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"iter {step}: loss {loss.item():.4f}")
    (out / "estimates.json").write_text(json.dumps(estimates), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train_file", type=Path)
    parser.add_argument("val_file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--steps", type=int, default=STEPS, help="fewer, to try it out")
    wanted = parser.parse_args()
    train(wanted.train_file, wanted.val_file, wanted.out, wanted.vocabulary, wanted.steps)


if __name__ == "__main__":
    main()
