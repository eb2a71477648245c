import torch
from torch import nn
from torch.utils.data import DataLoader

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
rows = [{"inputs": row, "target": row.square().sum()} for row in inputs]
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)


def objective(model: nn.Module, batch: dict[str, torch.Tensor]) -> tw.LossSum:
    error = model(batch["inputs"]).squeeze(1) - batch["target"]
    return tw.LossSum(error.square().sum(), len(error))


feed = tw.LoaderFeed(DataLoader(rows, batch_size=32, shuffle=True), accumulate=2, seed=7)
job = tw.Job(
    model=model,
    feed=feed,
    step=tw.OptimizerStep(model, objective, optimizer),
    stop_rules=(tw.StepLimit(100),),
    checkpoints=tw.Checkpoints("runs/loader/checkpoints", keep_top_k=1),
    checkpoint_every=tw.Every(25),
    state={
        "model": tw.ModuleState(model),
        "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
        "feed": feed,
    },
)
ended = tw.fit(job)
print(f"{ended.progress.samples} rows in {ended.progress.step} steps")
