# `make demo` and `make test` each work as the first command on a fresh clone.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)
BIN    := .venv/bin
READY  := .venv/.ready
INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --only-binary :all: --constraint constraints.txt

# Tests start hundreds of processes: none of them is to compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all fuzz lint bench bench-quick bench-micro clean

demo: $(READY)
	@$(BIN)/revfrf demo

test: lint
	$(BIN)/pytest -n 3 -m "not slow"

test-all: lint
	$(INSTALL) --editable '.[dev,ray,dask]'
	$(BIN)/pytest -n auto --hypothesis-profile new

# A minute for each decoder of what comes from outside, with a fuzzer that follows branches.
fuzz: $(READY)
	$(INSTALL) --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.fuzz.decoders --seconds 60

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks paper

bench-quick: $(READY)
	$(BIN)/python -m benchmarks paper --quick

bench-micro: $(READY)
	$(BIN)/python -m benchmarks micro

# The environment is made again only when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "RevFRF needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis five_hospitals.html
