# make demo   set up, then compare videos that it makes itself and report on them
# make test   set up, then ruff, the import contract, mypy and the tests

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint style clean

demo: $(VENV)/.demo
	$(BIN)/visil demo demo-output

# mypy needs one core for half a minute: beside the tests that costs little.
test: $(VENV)/.dev style
	$(BIN)/mypy & types=$$!; OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile && wait $$types

lint: style
	$(BIN)/mypy

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) demo-output
