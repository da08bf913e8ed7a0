# `make demo` and `make test` set everything up by themselves; PYTHON chooses the interpreter (3.11 to 3.13).
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

# What a sweep covers: SIZE is tiny, small or paper; SEEDS such as 1,2,3 (else the plan's); ARGS any other option.
SIZE ?= small
SEEDS ?=
WORKERS ?=
ARGS ?=
SWEEP = size=$(SIZE) $(if $(SEEDS),seeds=$(SEEDS)) $(if $(WORKERS),workers=$(WORKERS)) $(ARGS)
PLANS := $(notdir $(basename $(wildcard conf/plan/*.yaml)))
TRAINED := $(filter-out table1,$(PLANS))
PLAN ?= $(TRAINED)
# No run directories, so that only committed records count.
COMMITTED = runs.root=$(VENV)/no-runs
comma := ,
empty :=
PLAN_LIST = $(subst $(empty) $(empty),$(comma),$(strip $(PLAN)))

.PHONY: help setup demo test lint format data tables report figures readme check gpu-check clean sweep status timing $(PLANS)

help: ## Show what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12
	@echo "table2 ... table10, figure1 ... figure7, $(strip $(filter-out table% figure%,$(PLANS))):"
	@echo "  run what is missing of that plan, then show its table,"
	@echo "  with SIZE=tiny|small|paper SEEDS=1,2,3 WORKERS=2 ARGS='data.root=DIR track=none'"

setup: $(READY) ## Make the virtual environment and install the project with its development tools

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else f"rmsrepro needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	-$(BIN)/python -m rmsrepro.kernels.cpu.node.build
	@touch $@

demo: $(READY) ## Train MNIST with layernorm and rmsnorm and print the two side by side
	$(BIN)/python -m rmsrepro -m task=mnist norm=layernorm,rmsnorm size=small | $(BIN)/python -m rmsrepro.report.side_by_side

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest -n 2 -m "not gpu"

lint: $(READY) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

format: $(READY) ## Put the code into the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

data: $(READY) ## Download the data sets that need no account, with checksums
	for name in mnist cifar10 brown; do $(BIN)/python -m rmsrepro.data fetch $$name; done

tables: $(READY) ## Write every table of the paper, with what has been measured so far, to results/tables
	$(BIN)/python -m rmsrepro.report $(filter runs.root=%,$(ARGS))

report: $(READY) ## Write the report, one page that opens offline, to results/report.html
	$(BIN)/python -m rmsrepro.report --html $(filter runs.root=%,$(ARGS))

figures: $(READY) ## Write the paper's figures and the speed bars as SVG to results/figures
	$(BIN)/python -m rmsrepro.report figures $(filter runs.root=%,$(ARGS))

readme: $(READY) ## Bring README's overview and results/rendered up to date with the committed records
	$(BIN)/python -m rmsrepro.report --readme README.md $(COMMITTED)
	rm -rf results/rendered
	$(BIN)/python -m rmsrepro.report --out results/rendered/tables $(COMMITTED)
	$(BIN)/python -m rmsrepro.report figures --out results/rendered/figures $(COMMITTED)

check: $(READY) ## Fail where committed records contradict each other
	$(BIN)/python -m rmsrepro.report --check $(COMMITTED)

# A table is shown with what there is, even when some of its runs failed.
$(TRAINED): $(READY)
	@code=0; $(BIN)/python -m rmsrepro.sweep plan=$@ $(SWEEP) || code=$$?; \
	if [ $$code -le 1 ]; then $(BIN)/python -m rmsrepro.report plan=$@ size=$(SIZE) $(filter runs.root=%,$(ARGS)); fi; \
	exit $$code

table1: $(READY) ## Measure each norm's invariances and show them as Table 1
	$(BIN)/python -m rmsrepro.bench invariance --publish
	$(BIN)/python -m rmsrepro.report plan=table1

sweep: $(READY) ## Run what is missing of PLAN=table4, or of every plan
	$(BIN)/python -m rmsrepro.sweep plan=$(PLAN_LIST) $(SWEEP)

status: $(READY) ## Tell what is done, running, failed and still to do, and how long that will take
	@$(BIN)/python -m rmsrepro.sweep plan=$(PLAN_LIST) $(SWEEP) --status

timing: $(READY) ## Time whole training steps of every task, norm and implementation on this machine
	$(BIN)/python -m rmsrepro.bench steps --all --publish $(ARGS)

gpu-check: $(READY) ## Test and time the kernels on a CUDA GPU, at most 8 minutes; says so where there is none
	$(BIN)/python scripts/gpu_check.py

clean: ## Remove the virtual environment and what tools left behind; runs stay
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis *.egg-info
