import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
inputs = torch.randn(1000, 8)
targets = inputs.square().sum(dim=1)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

state = {
    "model": tw.ModuleState(model),
    "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
    "random": tw.RandomState(),
}
checkpoints = tw.Checkpoints("own_loop_checkpoints", keep_top_k=1)
first = 0
loaded = checkpoints.newest_valid()  # verified; a newer one that is damaged is named and set aside
if isinstance(loaded, tw.Loaded):
    for name, stateful in state.items():
        stateful.restore(loaded.parts[name])
    first = loaded.step
for step in range(first, 60):
    rows = torch.randperm(1000)[:100]
    optimizer.zero_grad()
    loss = (model(inputs[rows]).squeeze(1) - targets[rows]).square().mean()
    loss.backward()
    optimizer.step()
    if (step + 1) % 20 == 0:
        parts: dict[str, tw.Snapshot] = {name: one.snapshot() for name, one in state.items()}
        checkpoints.save(step + 1, parts, inventory={"torch": str(torch.__version__)})
print(f"went on from step {first}; sum of weights {sum(p.sum() for p in model.parameters()):.6f}")
