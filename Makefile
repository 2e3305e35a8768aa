# Everything runs from a virtual environment that the first target sets up; all it takes is Python 3.11 to 3.14. By
# default it is the newest on PATH that starts (a version manager's shim may be there without its Python): PyPI has the
# torch that is pinned below for each of them. Where torch for one Python is at hand and for the others has to be
# downloaded, PYTHON says so, as .ci/run does.
PYTHON ?= $(shell for version in 3.14 3.13 3.12; do \
	python$$version -c "import ensurepip, venv" 2>/dev/null && echo python$$version && exit; done; echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TORCH := 2.13.0
# Intel's Triton is a package named triton too, so it cannot be installed beside Triton.
INTEL := .venv-intel
INTEL_TRITON := triton-xpu==3.3.0b1

# Most of the tests' time is one thread that compiles, so JOBS processes share the files; a file's tests stay together
# for what they compile once. torch keeps its two threads in each: those that wait sleep, where spinning took the other
# process's core (half as much time again in the models' tests). numpy has one thread: OpenBLAS' threads spin as
# well, and with both cores taken a product of one millisecond took 180. A process that dies ends the run, with the name
# of its test: xdist would start another and, with whole files to hand out, may wait for it for ever. Hundreds of tests start
# processes, each of which would compile cuesta's modules where PYTHONDONTWRITEBYTECODE is set. So bytecode is kept, in
# $(VENV) and not in the tree.
JOBS ?= 2
BYTECODE := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode
THREADS := OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1
PYTEST := $(BYTECODE) $(THREADS) $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --max-worker-restart 0 --durations 40

.PHONY: help demo test quick test-full test-intel lint types test-matrix bench docs fuzz model-suite op-coverage dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# torch comes first and pinned: extras below only say what range cuesta works with. Triton is the one that torch
# brings along; torch for CPUs brings none.
$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install "torch==$(TORCH)"
	$(BIN)/python -m pip show --quiet triton 2>/dev/null || $(BIN)/python -m pip install "triton==3.6.0"
	$(BIN)/python -m pip install --editable ".[test,bench,docs,dist]"
	touch $@

demo: $(INSTALLED) ## compile, train and run a transformer; compare with eager and Inductor
	$(BIN)/cuesta-demo

test: lint types ## everything: lint, types, unit, FileCheck and end-to-end tests (JOBS=2 processes)
	$(PYTEST)

quick: lint types ## lint, types, and the tests that belong to what has changed since HEAD (SINCE=main)
	$(PYTEST) $$($(BIN)/python -m cuesta.tools.changed_tests $(SINCE))

test-full: lint types ## the same, with the models at full size as well (much memory, and an hour or more)
	CUESTA_FULL=1 $(BYTECODE) $(BIN)/python -m pytest

test-intel: $(INSTALLED) ## kernels to SPIR-V, with Intel's Triton in an environment of its own
	test -x $(INTEL)/bin/python || $(PYTHON) -m venv $(INTEL)
	@if $(INTEL)/bin/python -m pip install --quiet "$(INTEL_TRITON)"; then \
		CUESTA_XPU_PYTHON=$(CURDIR)/$(INTEL)/bin/python $(BIN)/python -m pytest test/lowering -k spirv; \
	else \
		echo "test-intel: skipped, because $(INTEL_TRITON) cannot be installed here"; \
	fi

test-matrix: ## tests of the public API with each Python and torch that can be had (PYTHONS=3.13 TORCHES="2.13 newest")
	$(PYTHON) tools/release/version_matrix.py $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(TORCHES),--torches $(TORCHES)) $(ARGS)

lint: $(INSTALLED) ## ruff's rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

bench: $(INSTALLED) ## time eager, Inductor and cuesta in one process (ARGS="--help" for its options)
	$(BIN)/cuesta-bench $(ARGS)

docs: $(INSTALLED) ## the documentation site, in site/; a link that leads nowhere is an error
	$(BIN)/python -m cuesta.tools.docs_site.pictures
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --site-dir site
	@echo "open site/index.html"

fuzz: $(INSTALLED) ## look for wrong code with N random graphs or torch programs (N=1000 KIND=graphs|blocks|programs|sizes|calls|files FIRST=0 ARGS="--processes 8")
	$(BIN)/python -m cuesta.tools.fuzz $(or $(KIND),graphs) --count $(or $(N),1000) --first $(or $(FIRST),0) $(ARGS)

op-coverage: $(INSTALLED) ## compare torch's operators with eager, and write docs/op_coverage.md (ARGS="--help")
	$(BIN)/python -m cuesta.tools.op_coverage --page docs/op_coverage.md $(ARGS)

model-suite: $(INSTALLED) ## compare small models of all kinds with eager, and write docs/models.md (ARGS="--help")
	$(BIN)/python -m cuesta.tools.model_suite --page docs/models.md $(ARGS)

dist: $(INSTALLED) ## build the wheel and the source distribution into dist/, and try the wheel in an empty environment
	$(BIN)/python tools/release/check_dist.py --torch $(TORCH)

clean: ## remove the environment and every cache
	rm -rf $(VENV) $(INTEL) .matrix *.egg-info build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
