# Two commands do everything, set-up included: `make demo` and `make test`.
# Each makes its own .venv; the demo's needs the core alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LINT := .venv-lint
PIP := -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
# One venv serves them all, and pip does not share.
.NOTPARALLEL:
.PHONY: help demo test lint bench clean

help:
	@echo "make demo   judge a small repository on recorded answers, then explain, verify and replay it"
	@echo "make test   all tests, on SQLite and on a real PostgreSQL"
	@echo "make lint   ruff, mypy --strict, import-linter"
	@echo "make bench  what an append and a verification cost, as ratios to their floors"
	@echo "make clean  remove what these made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: expected Python 3.11 or newer, found $$($(PYTHON) --version)"; \
	       echo "hint: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "hint: on Debian and Ubuntu: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) ..."
	@$(BIN)/python $(PIP) -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) for the tests ..."
	@$(BIN)/python $(PIP) -e '.[test]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	@$(BIN)/causebook demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist loadgroup $(TESTS)

# mypy and import-linter see the package only through a strict editable install, which holds a link for each
# file there was when it was made: so it is made anew each time, and the count is compared with the tree.
lint: pyproject.toml
	@test -x $(LINT)/bin/pip || $(PYTHON) -m venv $(LINT) \
	  || { echo "hint: on Debian and Ubuntu: apt-get install python3-venv"; rm -rf $(LINT); exit 1; }
	@rm -rf build .mypy_cache
	@$(LINT)/bin/python $(PIP) -e '.[lint,postgres,fast,timestamp]' --config-settings editable_mode=strict
	$(LINT)/bin/ruff check .
	$(LINT)/bin/ruff format --check .
	$(LINT)/bin/mypy -p causebook
	$(LINT)/bin/mypy tests/typing/api.py
	$(LINT)/bin/lint-imports --no-cache
	$(LINT)/bin/python tests/module_count.py

bench: $(VENV)/.test
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) $(LINT) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
