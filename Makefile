# Everything from a bare checkout with Python 3.11 or newer: a virtual environment in .venv, nothing outside it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint lock docs readme tables smoke check-all faults soak bench clean

install: .venv/installed  ## what runs need; what tests and docs need comes with `make test`

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
LOCKED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement

.venv/installed: pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(LOCKED) requirements.lock
	$(PIP) torch==2.13.0
	$(PIP) --no-build-isolation --editable .
	touch $@

.venv/developed: .venv/installed requirements-dev.lock
	$(LOCKED) requirements-dev.lock
	$(PIP) --no-build-isolation --editable '.[dev,ray,track,docs]'
	touch $@

demo: install  ## one seed of the rows of Table 2 against the published numbers; about 6 minutes
	$(BIN)/engram reproduce table2 --seeds 1 --skip gem dgr rtf --results runs/demo

test: .venv/developed  ## what CI runs: the tests, and lint beside them
	@$(MAKE) --no-print-directory lint > .venv/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder; status=$$?; \
	wait $$lint || status=1; cat .venv/lint.log; exit $$status

lint: .venv/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: .venv/developed  ## the hashes of all that constraints.txt pins, for all platforms
	$(BIN)/python .ci/lock.py

docs: .venv/developed  ## the documentation into site/, which opens from disk; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

readme: .venv/developed  ## the tables of the README, from the records
	$(BIN)/python docs/hooks.py

tables: install  ## the published tables against ours, their variants, and the paper's claims, from the committed records
	for table in 2 3 4 5 6; do $(BIN)/engram compare table$$table --variants; done
	$(BIN)/engram compare claims

smoke: .venv/developed  ## wheel and sdist, each in a clean environment outside the checkout
	$(BIN)/python .ci/smoke.py

check-all: .venv/developed  ## the whole contract of every method, network and scenario, also on Ray; about 15 minutes
	status=0; for name in $$($(BIN)/python -m engram.checks); do \
		echo "== $$name"; $(BIN)/engram check $$name --engine local ray || status=1; done; \
	$(BIN)/python -m engram.checks.pairs || status=1; exit $$status

faults: .venv/developed  ## every call of the disk fails once, in four ways, in a sweep of two runs; two minutes
	ENGRAM_ALL_FAULTS=1 $(BIN)/python -m pytest tests/runs/test_faults.py -rP | grep -E "points|passed|failed"

soak: .venv/developed  ## 200 random SIGKILLs over sweeps with two drivers; ten minutes
	$(BIN)/python tests/soak.py

bench: install
	$(BIN)/engram bench

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
