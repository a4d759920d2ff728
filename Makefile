# Everything runs in .venv, made on first use. VENV=path uses another one. What is needed less often
# (verl, vLLM, other versions, the wheels, the evidence) are sessions of nox: .venv/bin/nox -l
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# the documentation site needs neither torch nor a trainer
READY_DOCS := .venv-docs/.ready
# one worker per core, which runs whole files: what a file's tests share is made once; one thread each
WORKERS ?= auto

# Test processes read what the first one compiled, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=
# Many small trainings: memory is kept from step to step, and short texts need no threads.
export MALLOC_MMAP_THRESHOLD_ := 1073741824
export MALLOC_TRIM_THRESHOLD_ := 4294967296
export MALLOC_TOP_PAD_ := 67108864
export TOKENIZERS_PARALLELISM := false
# what the site's theme says of its own successor
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"
	@echo "more: $(BIN)/nox -l"

demo: $(READY) ## the comparison of the paper on a CPU: GRPO, GRPO-GA and PODS, in minutes
	$(BIN)/pods demo

test: $(READY) ## the tests of the library and of the laboratory: about 20 minutes of processor time
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

quick: $(READY) ## the tests of the library that cost little: about a minute on two cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" tests src

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY_DOCS) ## the documentation site, in build/site: seconds; a broken link is an error
	.venv-docs/bin/python -m mkdocs build --strict

clean: ## remove environments and caches, not your runs
	rm -rf $(VENV) .venv-docs .venv-versions .nox .cache build dist lab/build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	@echo "making the environment in $(VENV): a few minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . -e "lab[dev]"
	@touch $@

$(READY_DOCS): pyproject.toml
	@echo "making the environment of the documentation in .venv-docs: a minute, once"
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --upgrade pip
	.venv-docs/bin/python -m pip install --quiet -e ".[docs]" pytest
	@touch $@
