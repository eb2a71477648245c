import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(4096, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)


def objective(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> tw.LossSum:
    x, y = batch
    return tw.LossSum((model(x).squeeze(1) - y).square().sum(), len(y))


def validate() -> dict[str, float]:
    loss = objective(model, (inputs[3584:], targets[3584:]))
    return {"val_loss": float(loss.sum) / loss.targets}


feed = tw.Feed([inputs[:3584], targets[:3584]], batch_size=32, accumulate=2)
steps, patience = 20 * feed.steps_per_epoch, tw.Patience("val_loss", "min", patience=5)
weights, adamw = tw.ModuleState(model), tw.OptimizerState(optimizer, model.named_parameters())
job = tw.Job(
    model=model,
    feed=feed,
    step=tw.OptimizerStep(model, objective, optimizer, max_norm=1.0),
    knobs=(tw.LearningRate(optimizer, tw.cosine_with_warmup(steps, steps // 20, floor=0.01)),),
    stop_rules=(tw.StepLimit(steps), patience),
    validate=validate,
    validate_every=tw.Every(feed.steps_per_epoch),
    patience=patience,
    checkpoints=tw.Checkpoints("runs/script/checkpoints", keep_top_k=1),
    state={"model": weights, "optimizer": adamw, "random": tw.RandomState(), "patience": patience},
)
ended = tw.fit(job)
print(f"{ended.kind} at step {ended.progress.step}: {ended.reason}; best loss {patience.best:.4f}")
