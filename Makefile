# One word a task; CI calls the same words.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
# Tests wait a quarter of their time, for servers and for processes that they end: one more at once
# than there are processors.
AT_ONCE = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: demo test check soak lowest written docs bench wheel clean

# Install into .venv: uv where there is one, else pip. Done again only when pyproject.toml changes.
# Byte code is made when a module is first imported: most modules of the tests' packages never are.
define install
if command -v uv >/dev/null 2>&1; then \
  uv venv -q --allow-existing --python $(PYTHON) $(VENV) && \
  uv pip install -q --python $(BIN)/python -e '$(1)'; \
else \
  $(PYTHON) -m venv $(VENV) && \
  $(BIN)/pip install -q --no-compile --disable-pip-version-check -e '$(1)'; \
fi
endef

$(VENV)/.installed: pyproject.toml
	@$(call install,.)
	@touch $@

$(VENV)/.tests: pyproject.toml
	@$(call install,.[test])
	@touch $(VENV)/.installed $@

$(VENV)/.docs: pyproject.toml
	@$(call install,.[docs])
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed  ## a small corpus through all of it, offline
	@$(BIN)/gristmill demo demo

# Byte code is kept whatever the shell says: hundreds of processes load it.
test: check  ## everything but the long soaks, on all processors
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -m "not soak" -n $(AT_ONCE) --maxprocesses 8 --dist worksteal

check: $(VENV)/.tests  ## style, types, imports, English
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q .
	@$(BIN)/mypy -p gristmill
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/english.py

soak: $(VENV)/.tests  ## what `make test` has short: hundreds of kills, long fuzz, large inputs
	@PYTHONDONTWRITEBYTECODE= GRISTMILL_FUZZ=40 GRISTMILL_SOAK=20 $(BIN)/python -m pytest -q -n $(AT_ONCE) --maxprocesses 8 --dist worksteal

# What works with the newest libraries alone is a fault of the bounds.
LOWEST = build/lowest
lowest:  ## tests with the lowest version of each library that pyproject.toml allows; needs uv
	@uv venv -q --allow-existing --python $(PYTHON) $(LOWEST)
	@uv pip compile -q --resolution lowest-direct pyproject.toml -o $(LOWEST)/bounds.txt
	@uv pip install -q --python $(LOWEST)/bin/python -r $(LOWEST)/bounds.txt hypothesis pytest \
	  pytest-xdist regex -e .
	@$(LOWEST)/bin/python -m pytest -q -m "not soak" -n $(AT_ONCE) tests/test_golden.py \
	  tests/recipe tests/phases tests/loader tests/filters/extract tests/filters/language \
	  tests/filters/pii

written: $(VENV)/.tests  ## what is written from the code: docs/reference, a stub, digests of new filters
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python -c "from tests.filters.test_golden_filters import write; write()"

docs: $(VENV)/.docs  ## the guide as a site, in site/; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -n -c docs . site

# Machine code for each level of this kind of processor; jit/pack.py has the levels.
LEVELS ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v3 x86-64-v4,aarch64)

wheel:  ## a wheel with machine code, in dist/, tried in two new environments
	@rm -rf dist && $(PYTHON) -m venv build/tools
	@build/tools/bin/pip install -q --disable-pip-version-check build
	@GRISTMILL_PACK="$(LEVELS)" build/tools/bin/python -m build --wheel
	@$(PYTHON) scripts/try_wheel.py dist/*.whl

bench: $(VENV)/.tests  ## speed beside peers, into benchmarks/RESULTS.md
	@$(BIN)/python benchmarks/bench.py

clean:
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
