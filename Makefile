# Everything runs from a virtual environment that the first target sets up; all it takes is Python 3.11.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo test lint types bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# torch comes first and pinned: extras below only say what range cuesta works with.
$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install "torch==2.13.0"
	$(BIN)/python -m pip install --editable ".[test,bench]"
	touch $@

demo: $(INSTALLED) ## compile, train and run a transformer; compare with eager and Inductor
	$(BIN)/cuesta-demo

test: lint types ## everything: lint, types, unit, FileCheck and end-to-end tests
	$(BIN)/python -m pytest

lint: $(INSTALLED) ## ruff's rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

bench: $(INSTALLED) ## time eager, Inductor and cuesta in one process (ARGS="--help" for its options)
	$(BIN)/cuesta-bench $(ARGS)

clean: ## remove the environment and every cache
	rm -rf $(VENV) *.egg-info build .mypy_cache .pytest_cache .ruff_cache .hypothesis
