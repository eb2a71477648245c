import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(4096, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)


def objective(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> tw.LossSum:
    x, y = batch
    return tw.LossSum((model(x).squeeze(1) - y).square().sum(), len(y))


def validate() -> dict[str, float]:
    loss = objective(model, (inputs[3584:], targets[3584:]))
    return {"val_loss": float(loss.sum) / loss.targets}


# Steps of 64 rows up to row 2,000, of 128 up to row 4,000, then of 256; micro-batches of 32.
ramp = tw.Stages((0, 2000, 4000), (64, 128, 256))
feed = tw.Feed([inputs[:3584], targets[:3584]], batch_size=32, ramp=ramp)
ends = feed.epoch_ends(20)

noise = tw.NoiseScale(list(model.parameters()), every=5)
step = tw.OptimizerStep(model, noise.objective(objective), optimizer, max_norm=1.0)

# The weights at the end of each of the last eight epochs, with the norms' statistics of their mean.
statistics = tw.BatchNormRecalibration(model, objective, lambda: feed.from_start(2048))
mean = tw.SWA(model, tw.SWASchedule(ends[11], ends[12:]), statistics)

weights, adamw = tw.ModuleState(model), tw.OptimizerState(optimizer, model.named_parameters())
job = tw.Job(
    model=model,
    feed=feed,
    step=step,
    outcome_observers=(noise, tw.AverageUpdate(mean)),
    knobs=(tw.LearningRate(optimizer, tw.cosine_with_warmup(ends[-1], 20, floor=0.3)), mean),
    stop_rules=(tw.StepLimit(ends[-1]),),
    validate=tw.Evaluating(validate, mean),
    validate_every=tw.At(frozenset(ends)),
    checkpoints=tw.Checkpoints("runs/ramps/checkpoints", keep_top_k=1),
    state={"model": weights, "optimizer": adamw, "mean": tw.SWAState(mean), "noise": noise},
)
ended = tw.fit(job)
model.eval()
with torch.no_grad():
    trained = validate()["val_loss"]
    with mean.evaluated():
        averaged = validate()["val_loss"]
print(f"{ended.progress.step} steps; noise scale {float(noise.rows):.0f} rows")
print(f"loss of the trained weights {trained:.4f}, of the mean of {mean.count} {averaged:.4f}")
