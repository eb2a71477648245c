#!/usr/bin/env bash
# optuna 5.0.0 with SQLAlchemy 2.1.9, which it installs: GPSampler says that the greenlet package is
# unavailable and optimizes its starting points one after another, which it calls slower. Neither
# optuna nor SQLAlchemy 2.1 requires greenlet; SQLAlchemy 2.0 brought it along. With greenlet
# installed nothing is said.
# Seen: the warning in a fresh environment with the requirements of GPSampler (torch, scipy), none
# with greenlet 3.2.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
pip=("$folder/env/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" torch==2.13.0 numpy==2.4.6 scipy==1.17.1 optuna==5.0.0 SQLAlchemy==2.1.9
cat > "$folder/search.py" <<'PY'
import optuna

study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0))
study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=12)
PY
"$folder/env/bin/python" "$folder/search.py" 2> "$folder/bare.txt"
"$folder/env/bin/python" -c "import importlib.metadata as m; print(m.version('optuna'), m.version('sqlalchemy'))"
grep "greenlet" "$folder/bare.txt"
"${pip[@]}" greenlet==3.2.4
"$folder/env/bin/python" "$folder/search.py" 2> "$folder/with.txt"
if grep "greenlet" "$folder/with.txt"; then exit 1; fi
