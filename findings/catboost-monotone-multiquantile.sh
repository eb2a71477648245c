#!/usr/bin/env bash
# catboost 1.2.10: monotone_constraints with loss_function MultiQuantile are accepted and not kept,
# without a warning; with a single Quantile they are kept.
# Seen: the rows after which a prediction falls, of 599 steps along the constrained column
# (Quantile:alpha=0.5: 0; MultiQuantile:alpha=0.1,0.5,0.9: above 0 for the same quantile).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check catboost==1.2.10 numpy==2.4.6
"$folder/env/bin/python" - <<'PY'
import catboost
import numpy as np

random = np.random.default_rng(0)
x = random.uniform(0, 1, (600, 2))
y = x[:, 0] + np.sin(9 * x[:, 1]) + random.standard_t(2, 600)
line = np.column_stack([np.linspace(0, 1, 600), np.full(600, 0.5)])
falls = {}
for loss in ("Quantile:alpha=0.5", "MultiQuantile:alpha=0.1,0.5,0.9"):
    model = catboost.CatBoostRegressor(
        loss_function=loss, monotone_constraints=[1, 0], iterations=100, random_seed=0,
        allow_writing_files=False, verbose=False,
    )
    model.fit(x, y)
    median = np.asarray(model.predict(line)).reshape(600, -1)
    median = median[:, median.shape[1] // 2]
    falls[loss] = int((np.diff(median) < -1e-9).sum())
print(catboost.__version__, falls)
assert falls["Quantile:alpha=0.5"] == 0
assert falls["MultiQuantile:alpha=0.1,0.5,0.9"] > 0
PY
