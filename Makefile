# The only entry points; .ci/run calls the same ones. `make` lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Packages of the two trainings of the example, and all of them, in the same environment.
TRAINED := .venv/trained.stamp
STAMP := .venv/installed.stamp
PEERS := .venv-peers
AUTOML := .venv-automl
MLFLOW := .venv-mlflow
CONTRACT := examples/income/contract.yaml
export NO_MKDOCS_2_WARNING := 1
# Else each process that a test starts would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := src tests benchmarks docs examples
# Neighbouring tests stay in one process, so that what they share is made once.
WORKERS := -n 2 --dist worksteal
SLOWEST := --durations 10

.PHONY: help env train test test-extended test-all golden check format docs bench peers automl parity gpu services faults ranks clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

env: $(STAMP) ## make .venv with the pinned packages (done by the others when needed)

# What is imported is compiled then; compiling everything takes as long as the rest of the install.
$(TRAINED): pyproject.toml constraints.txt
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[torch]'
	@touch $@

# One pip command for everything: pip then settles torch's range and the pins together.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,eightbit,text,transformers,adapters,harness,onnx,s3,web,sql,large,mlflow,tensorboard,wandb,nvml,dev,docs]'
	@touch $(TRAINED) $@

# Exit code 3 is a verdict that is not met: the second run is still worth having. The worse code is
# passed on, though make itself always ends with 2.
train: $(TRAINED) ## train the example twice, trees and a network, each to its verdict
	@first=0; second=0; \
	$(BIN)/trainwright train $(CONTRACT) || first=$$?; \
	case $$first in 0|3) ;; *) exit $$first ;; esac; \
	$(BIN)/trainwright train $(CONTRACT) --set model.kind=tabular_resnet || second=$$?; \
	if [ $$second -gt $$first ]; then exit $$second; else exit $$first; fi

test: env ## run the test suite without the tests marked extended or slow
	$(BIN)/python -m pytest $(WORKERS) $(SLOWEST) -m "not extended"

test-extended: env ## run the tests marked extended: pages of the docs, real data, long trainings
	$(BIN)/python -m pytest $(WORKERS) $(SLOWEST) -m extended

test-all: env ## run the whole test suite
	TRAINWRIGHT_TIER=1 $(BIN)/python -m pytest $(WORKERS) $(SLOWEST) --timeout 1500

# With N=1 once.
N ?= 20
ranks: env ## the tests of several processes, N=20 times one after the other
	for number in $$(seq $(N)); do \
	TRAINWRIGHT_TIER=1 $(BIN)/python -m pytest -q $(SLOWEST) tests/conformance/test_strategies.py \
	tests/contracts/test_ranks.py || exit 1; done

# With BASE=<commit>, by default that of the last commit; RUNS='mlp gpt' names some of the runs.
BASE ?= HEAD
golden: env ## train small runs of every family here and at BASE=<commit>: the same bits
	PYTHONPATH=tests $(BIN)/python -m golden.compare $(BASE) $(RUNS)

check: env ## format, lint, types, layers, plain code and docs, changing nothing
	$(BIN)/ruff format --no-cache --check $(SOURCES)
	$(BIN)/ruff check --no-cache $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/plain.py
	$(BIN)/mkdocs build --strict --quiet

format: env ## format the code and mend what ruff can mend
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

docs: env ## serve the docs at http://127.0.0.1:8000
	$(BIN)/mkdocs serve

bench: env ## time of our step over that of a hand-written loop, and of others after `make peers`
	@python=$(BIN)/python; test -e $(PEERS)/installed.stamp && python=$(PEERS)/bin/python; \
	$$python benchmarks/loop.py

peers: $(PEERS)/installed.stamp ## make .venv-peers with what the loop is compared with

$(PEERS)/installed.stamp: pyproject.toml constraints.txt benchmarks/peers.txt
	test -x $(PEERS)/bin/python || "$(PYTHON)" -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 -r benchmarks/peers.txt -e '.[torch]'
	@touch $@

automl: $(AUTOML)/installed.stamp ## make .venv-automl with what a choice among models is compared with

$(AUTOML)/installed.stamp: benchmarks/automl.txt
	test -x $(AUTOML)/bin/python || "$(PYTHON)" -m venv $(AUTOML)
	$(AUTOML)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 -r benchmarks/automl.txt
	@touch $@

parity: env ## our numbers against independent implementations
	TRAINWRIGHT_TIER=1 $(BIN)/python -m pytest $(WORKERS) tests/parity

gpu: env ## run the tests that need a CUDA device
	TRAINWRIGHT_TIER=1 $(BIN)/python -m pytest tests/gpu

services: env $(MLFLOW)/installed.stamp ## run the tests that need servers: MLflow on SQLite and on PostgreSQL
	command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[postgresql]'
	TRAINWRIGHT_SERVICES=1 TRAINWRIGHT_TIER=1 $(BIN)/python -m pytest $(SLOWEST) tests/services

$(MLFLOW)/installed.stamp: tests/services/requirements.txt
	test -x $(MLFLOW)/bin/python || "$(PYTHON)" -m venv $(MLFLOW)
	$(MLFLOW)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/services/requirements.txt
	@touch $@

faults: env ## the whole fault matrix, and its page docs/reliability.md
	$(BIN)/python benchmarks/reliability.py --write

clean: ## remove the environment and everything that is built
	rm -rf .venv $(PEERS) $(AUTOML) $(MLFLOW) site build dist .benchmarks .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
