# Two commands for a newcomer: `make audit` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.PHONY: audit test lint bench browser testbed clean

audit: $(READY)
	$(BIN)/countergen-edit audit

test: $(READY) lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt countergenedit==1.1.0 concept-erasure==0.2.4
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

# Chromium, for the tests of the report; they are skipped without it. Needs Debian or Ubuntu, and root.
browser:
	command -v chromium && command -v chromedriver || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; }

# Remakes the shipped weights from the seed: under half an hour on two cores.
testbed: $(READY)
	$(BIN)/countergen-edit testbed action=train

clean:
	rm -rf $(VENV) build dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)
