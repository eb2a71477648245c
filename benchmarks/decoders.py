"""Tokens a second of decoders in training, beside nanoGPT's step and a plain compiled loop.

The shapes are GPT-2's and Llama's with 14 and 124 million weights. Beside a GPT-2 stand the model
and the step of nanoGPT's own checkout, as its `train.py` makes it on a CPU (fp32, AdamW as torch
makes it, clipping), and the same model in the loop that is fastest by hand: compiled, in bf16, with
the fused AdamW and clipping; beside a Llama that of transformers in the same two loops. Ours is the
step of a run planned for a short training, and the same compiled. All start from the same
weights, see the same batches and must come to the same losses; they take turns of a few steps in
one process, after a turn that compiles and is not counted. What is measured is the processor time
of the process.

MFU is what the products of the model need (three times those of a forward pass) over the most that
square products reach here in the same format.

python benchmarks/decoders.py --nanogpt CHECKOUT [--only gpt2_14m llama_14m] [--rounds 4] [--write]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal, final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from defaults import RATE, Workload, decided, feed_of, our_loop
from page import goal, write_section
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.engine.signals.flops import measure_peak
from trainwright.model.build_network import build_network
from trainwright.model.families import network_family
from trainwright.model.gpt.decoder_config import config_of
from trainwright.model.gpt.decoder_folder import foreign_weights
from trainwright.model.input_shape import TokenShape
from trainwright.planner.plan import Plan

Loop = Callable[[int], float]
"""Makes so many steps, and gives the last loss."""
Format = Literal["fp32", "bf16"]

GOAL_COMPILED, GOAL_FP32 = 1.0, {"gpt2_14m": 2.2}
_CONTEXT, _CLIPPING = 256, 1.0
_SIZES: Mapping[str, tuple[int, int, int, int]] = {
    "14m": (6, 384, 8192, 8),
    "124m": (12, 768, 50304, 2),
}
"""Layers, width, tokens of the vocabulary, and rows of a batch."""
_SHAPES: Mapping[str, Mapping[str, object]] = {
    "gpt2": {"positions": "learned"},
    "llama": {"norm": "rms", "feed_forward": "swiglu"},
}
NAMES = tuple(f"{shape}_{size}" for size in _SIZES for shape in _SHAPES)
_FAR = 0.05
"""Most by which losses may differ that started alike: bf16 has three digits."""


@final
@dataclass(frozen=True)
class Contender:
    """A loop by its name, and the format of its products."""

    name: str
    precision: Format
    loop: Loop


@final
@dataclass(frozen=True)
class Row:
    """Seconds of a step in each round, and the losses behind the turns."""

    name: str
    precision: Format
    seconds: Sequence[float]
    losses: Sequence[float]


def workload(name: str) -> Workload:
    """Tokens that mostly follow from the one before, so that there is something to learn."""
    shape, _, size = name.partition("_")
    layers, width, vocabulary, batch = _SIZES[size]
    draw = torch.Generator().manual_seed(0)
    tokens = [torch.randint(0, vocabulary, (64 * batch,), generator=draw)]
    for _ in range(_CONTEXT):
        noise = torch.randint(0, vocabulary, (64 * batch,), generator=draw)
        follows = torch.rand(64 * batch, generator=draw) < 0.8
        tokens.append(torch.where(follows, (31 * tokens[-1] + 7) % 512, noise % 512))
    rows = torch.stack(tokens, dim=1)
    section = Gpt.model_validate(
        {
            "kind": "gpt",
            "layers": layers,
            "heads": width // 64,
            "width": width,
            "context": _CONTEXT,
            **_SHAPES[shape],
        }
    )
    return Workload(
        name=name,
        what=f"{layers} layers of width {width}, {vocabulary:,} tokens, batches of "
        f"{batch} x {_CONTEXT}",
        section=section,
        shape=TokenShape(vocabulary),
        tensors=(rows[:, :-1].contiguous(), rows[:, 1:].contiguous()),
        batch=batch,
        goal=GOAL_COMPILED,
    )


def their_model(work: Workload, checkout: Path) -> nn.Module:
    """The same shape and weights as ours, in their code; it gives the mean loss of a batch."""
    assert isinstance(work.section, Gpt)
    torch.manual_seed(0)
    own = build_network(work.section, work.shape).state_dict()
    kind = "gpt2" if work.section.positions == "learned" else "llama"
    weights = foreign_weights(work.section, kind, own)
    if kind == "gpt2":
        return _of_nanogpt(work, checkout, weights)
    return _of_transformers(work, weights)


class _WithLoss(nn.Module):
    """A model of transformers as nanoGPT's: (tokens, targets) to (logits, mean loss)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(input_ids=tokens, use_cache=False).logits
        loss = functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        return logits, loss


def _of_nanogpt(work: Workload, checkout: Path, weights: Mapping[str, Tensor]) -> nn.Module:
    assert isinstance(work.section, Gpt)
    theirs = _module(checkout / "model.py")
    config = theirs.GPTConfig(
        block_size=_CONTEXT,
        vocab_size=work.shape.outputs,
        n_layer=work.section.layers,
        n_head=work.section.heads,
        n_embd=work.section.width,
        bias=False,
    )
    model: nn.Module = theirs.GPT(config)
    # GPT-2's own matrices have their inputs first, nanoGPT's their outputs.
    turned = {
        name: one.T if ".c_" in name and one.ndim == 2 else one for name, one in weights.items()
    }
    turned["lm_head.weight"] = turned["transformer.wte.weight"]
    model.load_state_dict({name: turned[name] for name in model.state_dict()})
    return model.train()


def _of_transformers(work: Workload, weights: Mapping[str, Tensor]) -> nn.Module:
    from transformers import AutoModelForCausalLM, LlamaConfig

    assert isinstance(work.section, Gpt)
    config = LlamaConfig.from_dict(config_of(work.section, work.shape.outputs))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    found = model.load_state_dict(dict(weights), strict=False)
    assert set(found.missing_keys) <= {"lm_head.weight"}, found
    assert not found.unexpected_keys, found
    return _WithLoss(model).train()


def their_loop(work: Workload, model: nn.Module, *, is_fast: bool) -> Loop:
    """The step of nanoGPT's train.py on a CPU, or the fastest by hand."""
    decayed = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    options = {"fused": True} if is_fast else {}
    optimizer = torch.optim.AdamW(groups, lr=RATE, **options)
    called = torch.compile(model) if is_fast else model
    batches = _batches(work)

    def steps(count: int) -> float:
        for _ in range(count):
            x, y = next(batches)
            with torch.autocast("cpu", torch.bfloat16) if is_fast else nullcontext():
                _, loss = called(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIPPING)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    return steps


def _batches(work: Workload) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of our feed, in its order."""
    feed = feed_of(work)
    while True:
        (batch,) = feed.next_step().micro_batches
        yield batch[0], batch[1]


def compiled(plan: Plan) -> Plan:
    """The plan with compiled passes."""
    training = plan.contract.training
    compute = training.compute.model_copy(update={"compile": "on"})
    return plan.with_training(training.model_copy(update={"compute": compute}), ())


def contenders(work: Workload, checkout: Path) -> list[Contender]:
    """All loops; the first two are theirs."""
    whose = "nanoGPT" if work.name.startswith("gpt2") else "transformers"
    plan = decided(work)
    ours: Format = "bf16" if plan.contract.training.mixed_precision == "bf16" else "fp32"
    slow = their_loop(work, their_model(work, checkout), is_fast=False)
    fast = their_loop(work, their_model(work, checkout), is_fast=True)
    return [
        Contender(f"{whose}, its step", "fp32", slow),
        Contender(f"{whose}, compiled loop", "bf16", fast),
        Contender("ours", ours, our_loop(work, plan, _CLIPPING)),
        Contender("ours, compiled", ours, our_loop(work, compiled(plan), _CLIPPING)),
    ]


def measure(work: Workload, checkout: Path, rounds: int, steps: int) -> list[Row]:
    """All in turns; the first turn compiles and is not counted."""
    lanes = contenders(work, checkout)
    seconds: dict[str, list[float]] = {one.name: [] for one in lanes}
    losses: dict[str, list[float]] = {one.name: [] for one in lanes}
    for number in range(rounds + 1):
        for one in lanes:
            started = time.process_time()
            losses[one.name].append(one.loop(steps))
            if number:
                seconds[one.name].append((time.process_time() - started) / steps)
        print(work.name, number, {k: round(v[-1], 4) for k, v in losses.items()}, flush=True)
    for one in lanes[1:]:
        apart = max(
            abs(a - b) for a, b in zip(losses[one.name], losses[lanes[0].name], strict=True)
        )
        if apart > _FAR:
            raise SystemExit(f"{work.name}: the losses of {one.name} are {apart:.3f} apart")
    return [Row(one.name, one.precision, seconds[one.name], losses[one.name]) for one in lanes]


def table(measured: Mapping[str, Sequence[Row]], peaks: Mapping[Format, float]) -> str:
    """A row for each loop of each shape."""
    lines = [
        "| shape | loop | products | tokens a second | MFU | over its fp32 step | over the "
        "compiled loop | last loss |",
        "| --- " * 8 + "|",
    ]
    for name, rows in measured.items():
        work = workload(name)
        tokens = work.batch * _CONTEXT
        products = network_family(work.section).count_products(work.section, work.shape)
        flops = 6 * products * work.batch
        for row in rows:
            best = min(row.seconds)
            faster = [_times(rows[place], row) for place in (0, 1)]
            lines.append(
                f"| {name} | {row.name} | {row.precision} | {tokens / best:,.0f} "
                f"| {flops / best / peaks[row.precision]:.0%} | {faster[0]:.2f} | {faster[1]:.2f} "
                f"| {row.losses[-1]:.3f} |"
            )
    return "\n".join(lines)


def _times(one: Row, other: Row) -> float:
    """How many times as fast the other is: the median of the rounds."""
    pairs = zip(one.seconds, other.seconds, strict=True)
    return statistics.median(a / b for a, b in pairs)


def goals(measured: Mapping[str, Sequence[Row]]) -> str:
    """What was wanted, and whether it was reached."""
    lines = []
    for name, rows in measured.items():
        best = max(_times(rows[1], row) for row in rows[2:])
        text = f"`{name}`: {best:.2f} of the compiled loop (goal: at least {GOAL_COMPILED:g}"
        said = f"{goal(text, best >= GOAL_COMPILED)})"
        if name in GOAL_FP32:
            most = max(_times(rows[0], row) for row in rows[2:])
            wanted = f"{most:.2f} of the fp32 step (goal: at least {GOAL_FP32[name]:g}"
            said += f", {goal(wanted, most >= GOAL_FP32[name])})"
        lines.append(f"- {said}")
    return "The faster of ours:\n\n" + "\n".join(lines)


def section(
    measured: Mapping[str, Sequence[Row]], peaks: Mapping[Format, float], rounds: int, steps: int
) -> str:
    """The text of the page."""
    about = "\n\n".join(" ".join(one.split()) for one in (__doc__ or "").split("\n\n")[1:3])
    works = "; ".join(f"`{name}`: {workload(name).what}" for name in measured)
    how = (
        f"{torch.get_num_threads()} thread, {rounds} rounds of {steps} steps; tokens a second by "
        f"the fastest round, ratios by the median; the losses are those of step "
        f"{steps * (rounds + 1)}. Square products reach "
        + " and ".join(f"{peak / 1e9:,.0f} GFLOP/s in {name}" for name, peak in peaks.items())
        + f". {works}."
    )
    return f"{about}\n\n{table(measured, peaks)}\n\n{goals(measured)}\n\n{how}"


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("of_the_checkout", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rounds", type=int, default=4, help="rounds that are counted")
    parser.add_argument("--steps", type=int, default=1, help="steps of each loop in a round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    peaks: dict[Format, float] = {
        name: measure_peak(torch.device("cpu"), name) for name in ("fp32", "bf16")
    }
    measured = {}
    for name in given.only:
        measured[name] = measure(workload(name), given.nanogpt, given.rounds, given.steps)
        torch.compiler.reset()
        gc.collect()
    print(f"{table(measured, peaks)}\n\n{goals(measured)}")
    if given.write:
        text = section(measured, peaks, given.rounds, given.steps)
        write_section("decoders", "Decoders", text, ("torch", "transformers"))


if __name__ == "__main__":
    main()
