#!/usr/bin/env bash
# wandb 0.31.0: the Python reader of offline files, wandb.sdk.internal.datastore, which scripts use
# to read a run that was never synchronised, is no longer in the package; its protobuf messages are.
# Seen: ModuleNotFoundError for the reader, while wandb.proto.wandb_internal_pb2 is imported.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check wandb==0.31.0
"$folder/env/bin/python" - <<'PY'
import importlib

import wandb

print(wandb.__version__)
importlib.import_module("wandb.proto.wandb_internal_pb2")
try:
    importlib.import_module("wandb.sdk.internal.datastore")
except ModuleNotFoundError as error:
    print(error)
else:
    raise SystemExit("the reader is there again")
PY
