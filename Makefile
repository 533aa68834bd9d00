# Two commands on a fresh machine: `make demo` and `make test`. Both make .venv once; later runs start at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-deploy test-releases bench bench-peers docs screenshots lint types contract tests clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo    make an environment, install gossamer and run its first experiment"
	@echo "make test    format, lint, types, import contract, tests"
	@echo "make test-deploy   the files for deployment, with their tools (HAProxy, Prometheus, podman, kubectl)"
	@echo "make test-releases   this release and earlier ones in one run, each in an environment of its own"
	@echo "make docs    the documentation site, in docs/_build/index.html"
	@echo "make bench   speed, as ratios measured in one run"
	@echo "make bench-peers   speed against other software, against floors, and of parties against bare gRPC"
	@echo "make screenshots   the documentation's pictures of pages, in Chromium"
	@echo "make clean   remove the environment and all caches"

demo: $(VENV)/.installed
	$(BIN)/gossamer run mushrooms
	@echo "Next, on your own records: $(BIN)/gossamer run --csv YOUR.csv --target COLUMN"

test: lint types contract tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

contract: $(VENV)/.installed-dev
	$(BIN)/lint-imports

tests: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 --dist worksteal

test-deploy: $(VENV)/.installed-deploy  # with the environment's own programs, podman-compose, first
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/deployment_tools.py

# Earlier releases' environments are kept, in a folder of their own or in $GOSSAMER_RELEASES.
test-releases: export GOSSAMER_RELEASES ?= $(CURDIR)/.releases
test-releases: $(VENV)/.installed-dev
	$(BIN)/pytest tests/test_earlier_releases.py

docs: $(VENV)/.installed-dev  # the tests build it, too
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/graphs.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/privacy.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/mpi.py --quick

bench-peers: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/other_software.py
	$(BIN)/python benchmarks/large.py cpu
	$(BIN)/python benchmarks/large.py gpu
	$(BIN)/python benchmarks/peers.py 100000 --numbers f4

screenshots: $(VENV)/.installed-dev
	$(BIN)/python docs/screenshots.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gossamer needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-deploy: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --editable '.[deploy,peers]'
	@touch $@

clean:
	rm -rf $(VENV) .bench-peers .releases docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
