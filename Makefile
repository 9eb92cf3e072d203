# make demo   set up, then compare videos that it makes itself and report on them
# make test   set up, then ruff, the import contract, mypy and the tests
# make docs   set up, then the documentation as a site, in site/
# make lint   ruff, the import contract and mypy alone, this time also for Windows
# make dist   a wheel and an sdist, in dist/
# make lock   write constraints.txt anew from what is installed

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: most of the packages' never are.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# What is published has no benchmarks: there the package alone is checked.
MYPY := $(BIN)/mypy $(if $(wildcard benchmarks),,src)

.PHONY: demo test lint style docs dist lock clean

demo: $(VENV)/.demo
	$(BIN)/visil demo demo-output

# Two processes more than there are cores, since some tests wait. Style and types need one core for a minute, beside them.
# Bytecode is kept, whatever the environment says: the tests start hundreds of processes that need it.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev
	($(MAKE) --no-print-directory style && $(MYPY)) & style=$$!; $(BIN)/python tests/imported.py; \
		OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 2)) \
		--dist loadfile --no-loadscope-reorder && wait $$style

lint: style
	$(MYPY)
	$(BIN)/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/win32 src

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

dist: $(BIN)/python
	$(INSTALL) hatchling
	$(BIN)/python -m hatchling build

lock: $(VENV)/.dev $(VENV)/.docs
	sed '/^$$/,$$d' constraints.txt > constraints.new && echo >> constraints.new
	$(BIN)/python -m pip freeze --exclude-editable | grep -vE '^(torch|triton)==' >> constraints.new
	mv constraints.new constraints.txt

# Of pip, a recent one: it reads an index three times as fast as the one that comes with Python 3.11.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25'

# pip asks for one package after another: three at once, each with a third of the list, beside them torch and visil
# itself; then what is still missing.
# Without what only `make docs` needs: that is a quarter of all files.
$(VENV)/.dev: pyproject.toml constraints.txt $(BIN)/python
	grep == constraints.txt | grep -vE '^(mkdocs|babel|pymdown|griffe)' | split -n r/3 - $(VENV)/third.
	for third in $(VENV)/third.*; do $(INSTALL) --no-deps -r $$third & done; $(INSTALL) --no-deps torch triton & \
		$(INSTALL) --no-deps -e . & wait
	$(INSTALL) 'visil[dev]'
	touch $@

$(VENV)/.%: pyproject.toml constraints.txt $(BIN)/python
	$(INSTALL) -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) demo-output site dist
