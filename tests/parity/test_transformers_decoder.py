"""A decoder of transformers with random weights: the bits of a plain torch loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.loading.batch import element_targets  # noqa: E402
from trainwright.run.after.export_weights import export_model  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402

pytestmark = pytest.mark.torch

VOCABULARY, ROWS, LENGTH, STEPS = 61, 48, 12, 9
RATE, DECAY = 3e-3, 0.1
TIES = pytest.mark.parametrize("tied", [False, True], ids=["own head", "tied head"])


def decoder(tied: bool = False, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=tied,
        attention_dropout=dropout,
        attention_bias=True,
    )
    model = transformers.LlamaForCausalLM(config)
    model.train()
    return model


def texts() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (ROWS, LENGTH + 1), generator=draw)
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    groups = [one.options(DECAY, RATE) for one in tw.group_parameters(model)]
    return torch.optim.AdamW(groups, lr=RATE, fused=True)


def job_of(model: nn.Module, folder: Path, steps: int, *, masks: bool = False) -> tw.Job:
    optimizer = optimizer_of(model)
    data = texts()
    batch = tw.Batch(data, mask=mask_of(data) if masks else "all")
    feed = tw.Feed(batch, 4, 2, seed=3, count_targets=element_targets)
    loss = tw.Supervised(tw.CrossEntropyLoss())
    return tw.Job(
        model=model,
        feed=feed,
        step=tw.OptimizerStep(model, loss, optimizer),
        stop_rules=(tw.StepLimit(steps),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        checkpoint_every=tw.Every(4),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
            "random": tw.RandomState(),
        },
    )


def mask_of(data: dict[str, Tensor]) -> Tensor:
    return (data["labels"] + data["input_ids"]) % 4 != 0


def plain_loop(model: nn.Module, steps: int, *, masks: bool = False) -> list[float]:
    """The same training by hand: rows in the order of the feed, two micro-batches of four."""
    decayed = {
        name
        for name, one in model.named_parameters()
        if one.ndim > 1 and "embed_tokens" not in name
    }
    named = dict(model.named_parameters())
    groups = [
        {"params": [one for name, one in named.items() if name in decayed], "weight_decay": DECAY},
        {"params": [one for name, one in named.items() if name not in decayed], "weight_decay": 0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
    data, order = texts(), tw.Feed(texts(), 8, seed=3).order
    mask = mask_of(data)
    losses = []
    for step in range(steps):
        epoch, first = divmod(8 * step, ROWS)
        rows = torch.from_numpy(order.at(epoch, first, first + 8))
        counted = int(mask[rows].sum()) if masks else 8 * LENGTH
        total = torch.zeros(())
        optimizer.zero_grad()
        for some in rows.split(4):
            logits = model(input_ids=data["input_ids"][some], use_cache=False).logits.flatten(0, 1)
            target = data["labels"][some].flatten()
            if masks:
                each = functional.cross_entropy(logits, target, reduction="none")
                loss = (each * mask[some].flatten()).sum()
            else:
                loss = functional.cross_entropy(logits, target, reduction="sum")
            (loss / counted).backward()
            total += loss.detach()
        optimizer.step()
        losses.append(total.item() / counted)
    return losses


class Losses:
    def __init__(self) -> None:
        self.seen: list[float] = []

    def observe(self, event: object) -> None:
        if isinstance(event, tw.StepKept):
            self.seen.append(float(event.outcome.loss))


def train(job: tw.Job, **options: Any) -> list[float]:
    losses = Losses()
    tw.fit(replace(job, observers=(losses,)), **options)
    return losses.seen


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for (name, ours), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs), name


@TIES
@pytest.mark.parametrize("masks", [False, True], ids=["all targets", "masked"])
def test_losses_and_weights_are_those_of_a_plain_loop(
    tmp_path: Path, tied: bool, masks: bool
) -> None:
    ours, theirs = decoder(tied), decoder(tied)
    losses = train(job_of(ours, tmp_path, STEPS, masks=masks))
    assert losses == plain_loop(theirs, STEPS, masks=masks)
    assert_same(ours, theirs)
    assert losses[-1] < losses[0]


def test_the_test_sees_other_decay_and_other_rows(tmp_path: Path) -> None:
    ours, theirs = decoder(), decoder()
    job = job_of(ours, tmp_path, STEPS)
    for group in job.state["optimizer"]._optimizer.param_groups:  # type: ignore[attr-defined]
        group["weight_decay"] = DECAY
    train(job)
    plain_loop(theirs, STEPS)
    with pytest.raises(AssertionError):
        assert_same(ours, theirs)


@TIES
def test_norms_biases_and_embeddings_are_not_decayed(tied: bool) -> None:
    model = decoder(tied)
    names = {one: name for name, one in model.named_parameters()}
    decayed, rest = ({names[p] for p in g.parameters} for g in tw.group_parameters(model))
    assert len(decayed) + len(rest) == len(names)
    assert all("proj.weight" in name or name == "lm_head.weight" for name in decayed)
    assert ("lm_head.weight" in decayed) is not tied
    assert sum("norm" in name for name in rest) == 7
    assert "model.embed_tokens.weight" in rest


@pytest.mark.extended
@pytest.mark.parametrize("how", ["full", tw.ByOp(kind="by_op")])
def test_activation_checkpointing_changes_no_bit(tmp_path: Path, how: Any) -> None:
    usual, again = decoder(dropout=0.2), decoder(dropout=0.2)
    tw.recompute(again, how)
    calls = []
    again.model.layers[1].mlp.register_forward_pre_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    torch.manual_seed(5)
    losses = train(job_of(usual, tmp_path / "usual", 3))
    torch.manual_seed(5)
    assert train(job_of(again, tmp_path / "again", 3)) == losses
    assert_same(again, usual)
    assert len(calls) == 12  # three steps of two micro-batches, each computed twice


def test_a_cache_is_refused_where_blocks_are_computed_again() -> None:
    model = decoder()
    tw.recompute(model, "full")
    with pytest.raises(Mistake, match="fills a cache"):
        model(texts()["input_ids"])
    with torch.no_grad():
        model(texts()["input_ids"])


@TIES
def test_a_resume_ends_with_the_same_bits(tmp_path: Path, tied: bool) -> None:
    unbroken, cut, resumed = (decoder(tied, dropout=0.2) for _ in range(3))
    torch.manual_seed(7)
    losses = train(job_of(unbroken, tmp_path / "unbroken", STEPS))
    torch.manual_seed(7)
    first = train(job_of(cut, tmp_path / "cut", 5))
    torch.manual_seed(99)
    nn.init.zeros_(resumed.get_parameter("model.norm.weight"))
    rest = train(job_of(resumed, tmp_path / "cut", STEPS))
    assert first + rest == losses
    assert_same(resumed, unbroken)


@TIES
def test_exported_weights_are_read_by_the_library(tmp_path: Path, tied: bool) -> None:
    model, saved = decoder(tied), tmp_path / "saved"
    tw.fit(job_of(model, tmp_path / "run" / "checkpoints", 2), run=tmp_path / "run")
    model.config.save_pretrained(saved)  # type: ignore[operator,union-attr]
    names = export_model(RunFolder(tmp_path / "run"), saved / "model.safetensors").names
    assert ("lm_head.weight" in names) is not tied
    assert set(load_file(saved / "model.safetensors")) == set(names)
    read = transformers.LlamaForCausalLM.from_pretrained(saved)
    assert_same(read, model)
    tokens = texts()["input_ids"][:2]
    with torch.no_grad():
        assert torch.equal(read.eval()(tokens).logits, model.eval()(tokens).logits)
