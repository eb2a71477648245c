#!/usr/bin/env bash
# xgboost-cpu 3.2.0: monotone_constraints with objective reg:absoluteerror or reg:quantileerror are
# accepted, and the predictions fall all the same. With reg:squarederror they never do. No warning.
# Seen: the rows after which the prediction falls, of 599 steps along the constrained column
# (squared error 0, absolute error above 0, quantile error above 0). Leaves of these two objectives
# are refitted to the median or quantile of their rows after the tree is grown.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PY'
import numpy as np
import xgboost

random = np.random.default_rng(0)
x = random.uniform(0, 1, (600, 2))
y = x[:, 0] + np.sin(9 * x[:, 1]) + random.standard_t(2, 600)
line = np.column_stack([np.linspace(0, 1, 600), np.full(600, 0.5)])
falls = {}
for objective in ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror"):
    settings = {"objective": objective, "monotone_constraints": "(1,0)", "seed": 0}
    settings |= {"quantile_alpha": 0.5} if "quantile" in objective else {}
    model = xgboost.train(settings, xgboost.DMatrix(x, y), 60)
    falls[objective] = int((np.diff(model.predict(xgboost.DMatrix(line))) < -1e-6).sum())
print(xgboost.__version__, falls)
assert falls["reg:squarederror"] == 0
assert falls["reg:absoluteerror"] > 0
assert falls["reg:quantileerror"] > 0
PY
