# `make run` starts the demo, `make test` runs every check and test, `make e2e` runs against the real agents.
# `make bench` measures, `make soak` turns files over for a minute and looks for what is lost or told twice.
# `make stack` runs Prometheus and Alertmanager over the demo, `make pictures` draws the dashboards from it.
# Needs a Python of at least 3.11; everything else is installed into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The modules whose every branch has to be tested.
CORE := $(addprefix sidecar/,signals.py limits.py session.py changes.py phases.py turns.py deeds.py witnesses.py fold.py life.py family.py policy.py wording.py story.py view.py fleet.py)

empty :=
comma := ,
CORE_LIST := $(subst $(empty) $(empty),$(comma),$(strip $(CORE)))

.PHONY: run test check format e2e bench soak stack pictures clean

run: $(VENV)/.installed
	$(BIN)/agent-sidecar demo

test: check
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report
	$(BIN)/coverage report --include=$(CORE_LIST) --fail-under=100

check: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

e2e: $(VENV)/.installed-dev
	tests/e2e/install.sh
	tests/k8s/install.sh
	$(BIN)/python -m pytest tests/e2e tests/k8s

bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.bench.bench_tail
	$(BIN)/python tests/bench/bench_listing.py
	PYTHONPATH=. $(BIN)/python tests/bench/bench_scrape.py

# Seconds of rotations: by rename, by copy and truncation, by deletion, 20 files.
SOAK ?= 60

soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.sources.test_rotation $(SOAK)

# What is on the PATH is used; otherwise Debian's packages are unpacked, not installed.
STACK := $(shell command -v prometheus-alertmanager >/dev/null && command -v prometheus >/dev/null || echo .e2e/stack/own)

stack: $(VENV)/.installed
	@$(if $(STACK),dashboards/stack/debian.sh own $(STACK))
	@exec $(BIN)/python -m dashboards.stack $(if $(STACK),--programs $(STACK)) $(STACK_OPTIONS)

pictures: $(VENV)/.installed-dev
	$(PIP) install matplotlib==3.11.2
	dashboards/stack/debian.sh own .e2e/stack/own
	$(BIN)/python -m tests.dashboards.pictures

clean:
	rm -rf $(VENV) .e2e .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage build dist

# An environment without pip cannot be repaired from inside, so the module that brings pip is asked for first.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed; choose one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; \
	  else \
	    echo "$(PYTHON) cannot create environments; on Debian: sudo apt-get install python3-venv" >&2; exit 1; \
	  fi; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements-dev.txt | $(BIN)/python
	$(PIP) install --requirement requirements-dev.txt --editable .
	@touch $@ $(VENV)/.installed
