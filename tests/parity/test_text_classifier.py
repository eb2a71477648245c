"""Encoders of transformers, trained from a contract: the bits of a plain torch loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from canary import Killed  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from faults.tiers import in_test  # noqa: E402
from made_texts import write_base, write_text_project  # noqa: E402
from trainwright.checkpoint.states.random_state import key_generators  # noqa: E402
from trainwright.data.base.token_inputs import TextInputs  # noqa: E402
from trainwright.optim.lr_schedule import build_schedule  # noqa: E402

pytestmark = pytest.mark.torch

RATE, DECAY, ROWS = 0.005, 0.01, 16


def plain_loop(base: Path, run: Run, classes: int) -> tuple[nn.Module, list[float]]:
    """The same training by hand, from the weights that transformers reads itself."""
    torch.manual_seed(run.ready.plan.contract.seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=classes, dtype=torch.float32
    )
    model.train()
    decayed = {
        name for name, one in model.named_parameters() if one.ndim > 1 and "embeddings." not in name
    }
    groups = [
        {
            "params": [one for name, one in model.named_parameters() if (name in decayed) == is_in],
            "weight_decay": DECAY if is_in else 0.0,
        }
        for is_in in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
    inputs = TextInputs.of_kind(run.ready.prepared.train.inputs)
    target = torch.tensor(run.ready.prepared.train.target)
    steps = run.ended.progress.step
    schedule = build_schedule(run.ready.plan.contract.training.scheduler, steps)
    losses, order = [], run.job.feed.order  # type: ignore[attr-defined]
    in_epoch = -(-len(inputs) // ROWS)
    for step in range(steps):
        epoch, place = divmod(step, in_epoch)
        first = place * ROWS
        rows = order.at(epoch, first, min(first + ROWS, len(inputs)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * schedule(step)
        optimizer.zero_grad()
        samples = epoch * len(inputs) + first + len(rows)
        key_generators(run.ready.plan.contract.seed, samples, torch.device("cpu"))
        logits = model(**padded_by_hand(inputs, rows)).logits
        loss = functional.cross_entropy(logits, target[torch.from_numpy(rows)], reduction="sum")
        (loss / len(rows)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item() / len(rows))
    return model, losses


def padded_by_hand(inputs: TextInputs, rows: np.ndarray) -> dict[str, Tensor]:
    texts = [
        torch.from_numpy(
            inputs.tokens[inputs.starts[row] :][: inputs.lengths[row]].astype(np.int64)
        )
        for row in rows
    ]
    ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=inputs.pad)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in texts], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("kind", in_test(3, ["bert", "distilbert", "roberta"]))
def test_fine_tuning_has_the_bits_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    run = train(write_text_project(tmp_path, kind), "run")
    model, losses = plain_loop(tmp_path / "base", run, 2)
    assert run.ended.progress.step == len(losses) > 15
    assert run.signals["loss"] == losses
    ours = run.job.model.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(ours[name], tensor), name


def test_a_cut_changes_no_bit(tmp_path: Path) -> None:
    contract = write_text_project(tmp_path)
    settings = ("training.checkpointing.save_every_n_steps=2",)
    whole = train(contract, "whole", *settings)
    for death in (1, 5, 12):
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", *settings, dies_at=death)
        assert bits(train(contract, f"cut-{death}", *settings)) == bits(whole)


@pytest.mark.extended
def test_accumulation_does_not_change_the_update(tmp_path: Path) -> None:
    """Micro-batches are as wide as their own longest row: only rounding differs."""
    contract = write_text_project(tmp_path)
    no_dropout = write_without_dropout(tmp_path)
    settings = (f"model.architecture={no_dropout}", "training.stop.max_steps=6")
    one = train(contract, "one", *settings)
    few = (*settings, "training.batch_size=4", "training.gradient_accumulation_steps=4")
    four = train(contract, "four", *few)
    np.testing.assert_allclose(one.signals["loss"], four.signals["loss"], rtol=2e-5)
    for (name, whole), parts in zip(
        one.job.model.state_dict().items(), four.job.model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(whole, parts, rtol=1e-3, atol=2e-5, msg=name)


def write_without_dropout(folder: Path) -> str:
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return write_base(folder / "still", **off).name
