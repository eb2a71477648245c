"""Growing steps and windows against a loop written by hand, which knows neither feed nor step: the
same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from contract_runs import train  # noqa: E402
from made_data import make_text  # noqa: E402
from trainwright.data.base.counter_rng import Permutation  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.loading.dataset import WindowDataset  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import shape_of  # noqa: E402

pytestmark = pytest.mark.torch

CONTEXT, BATCH, FULL, EPOCHS = 16, 4, 8, 2
TEXT = f"""
data: {{kind: tokens, path: text.txt}}
model: {{kind: gpt, layers: 1, heads: 2, width: 16, context: {CONTEXT}}}
training: {{num_epochs: {EPOCHS}, batch_size: {BATCH}, effective_batch_size: {FULL},
           early_stopping: off, gradient_clipping: off,
           ramps: {{batch: {{start: 2, samples: 40}}, sequence: {{start: 4, samples: 100}}}},
           optimizer: {{name: sgd, learning_rate: 0.1, weight_decay: 0.0}},
           scheduler: {{name: constant}}}}
metric: {{target: dummy}}
"""


@pytest.mark.extended
def test_both_ramps_train_what_the_plain_loop_trains(tmp_path: Path) -> None:
    make_text(tmp_path / "text.txt")
    contract = tmp_path / "text.yaml"
    contract.write_text(TEXT)
    run = train(contract, "one")
    ready = run.ready
    inputs = ready.prepared.train.inputs
    assert isinstance(inputs, TokenInputs)
    store = WindowDataset(inputs, CONTEXT, device=torch.device("cpu"))
    torch.manual_seed(0)
    model = build_network(ready.plan.contract.model, shape_of(ready.prepared))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    losses = []
    for epoch in range(EPOCHS):
        windows, following = store.take(epoch, Permutation(store.rows, 0).at(epoch, 0, store.rows))
        first = 0
        while first < store.rows:
            seen = epoch * store.rows + first
            rows = 2 if seen < 20 else 4 if seen < 40 else FULL
            length = 4 if seen < 50 else 8 if seen < 100 else CONTEXT
            last = min(first + rows, store.rows)
            middle = last if last - first <= BATCH else (first + last + 1) // 2
            total, targets = torch.zeros(()), (last - first) * CONTEXT
            sgd.zero_grad()
            for start, stop in ((first, middle), (middle, last)):
                if start < stop:
                    x = windows[start:stop].reshape(-1, length)
                    y = following[start:stop].reshape(-1, length)
                    logits = model(x).flatten(0, 1)
                    loss = functional.cross_entropy(logits, y.flatten(), reduction="sum")
                    (loss / targets).backward()
                    total += loss.detach()
            sgd.step()
            losses.append(float(total) / targets)
            first = last
    assert len(losses) == ready.plan.estimate.steps > 100
    assert run.signals["loss"] == losses
    for ours, theirs in zip(run.job.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
