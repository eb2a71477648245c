from contextlib import nullcontext

import torch
from torch import nn

import trainwright as tw

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
batch = (torch.randn(128, 256), torch.randint(0, 10, (128,)))


def objective(model: nn.Module, batch: tw.Batch) -> tw.LossSum:
    x, y = batch
    return tw.LossSum(nn.functional.cross_entropy(model(x), y, reduction="sum"), len(y))


def way(precision: tw.Full | tw.Autocast) -> tw.Way:
    return tw.Way(objective, precision, kernels=nullcontext, prepare=lambda: None)


fp32, bf16 = tw.Trials(model, batch).compare(
    [way(tw.Full()), way(tw.Autocast(torch.device("cpu")))]
)
pays = bf16.seconds.used * 1.15 < fp32.seconds.used
agrees = abs(bf16.loss - fp32.loss) <= 0.01 * abs(fp32.loss)
precision = tw.Autocast(torch.device("cpu")) if pays and agrees else tw.Full()
print(f"loss in fp32 {fp32.loss:.3f}, in bf16 {bf16.loss:.3f}; they agree: {agrees}")

kernels = "onednn" if tw.product_error(model) <= 1e-5 else "exact"
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
with tw.matrix_products(kernels):  # the setting of the process comes back behind it
    for _ in range(50):
        optimizer.zero_grad()
        with precision.forward():
            total, count = objective(model, batch)
        (total / count).backward()
        optimizer.step()
print(f"loss {total.item() / count:.3f}; weights are {next(model.parameters()).dtype}")
