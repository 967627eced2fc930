# Everything sets itself up: a virtual environment in .venv, and the package installed into it.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Matrices of a few hundred rows are slower on two BLAS threads than on one.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# A process of tests for each core. Each is given neighbouring tests, since models that a file fits
# once are fitted once in each process.
JOBS ?= auto
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# What the oldest supported versions run: the numbers, what scikit-learn asks, and the public names.
FLOOR := tests/core tests/estimators/test_common.py tests/test_public_api.py

# Pages whose examples are tests.
TEXT := docs/tour.rst docs/user_guide docs/coming_from.rst docs/extending.rst docs/faq.rst

# Examples whose first pictures are kept in docs/images.
PICTURES := inducing_points heteroscedastic_noise calibration

.PHONY: help demo examples pictures test test-code test-text test-fast test-floor harden lint format dist docs \
    check-docs bench tabular clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.plot $(VENV)/.test $(VENV)/.lint $(VENV)/.dist $(VENV)/.docs $(VENV)/.tabular: $(VENV)/.%: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

demo: $(VENV)/.plot  ## Fit, compare and draw on data that scikit-learn ships (under a minute)
	$(BIN)/python examples/demo.py

examples: $(VENV)/.docs  ## Run all examples of the gallery, and draw into output/ (two minutes)
	$(BIN)/python examples/demo.py --all

pictures: $(VENV)/.plot  ## Draw the pictures of the README and the start page again
	$(BIN)/python examples/demo.py $(PICTURES)
	cp $(PICTURES:%=output/%.png) docs/images/

test: test-code test-text  ## Run all tests and docstring examples

# SCIPY_ARRAY_API makes scikit-learn's checks of array input run, too.
test-code: $(VENV)/.test
	SCIPY_ARRAY_API=1 $(PYTEST)

# This mode imports each module once, so that classes in docstring examples are those that the
# package knows.
test-text: $(VENV)/.test
	$(PYTEST) --import-mode=prepend --doctest-modules --doctest-glob="*.rst" sparsegpc $(TEXT)

test-fast: $(VENV)/.test  ## Run the tests that are not marked slow
	$(PYTEST) -m "not slow"

test-floor:  ## Run the tests of the core and of the interface on the oldest supported versions
	$(MAKE) .venv-floor/.floor VENV=.venv-floor
	.venv-floor/bin/python -m pytest -q -m "not slow" $(FLOOR)

.venv-floor/.floor: .venv-floor/bin/python pyproject.toml tests/floor.txt
	.venv-floor/bin/python -m pip install --quiet --editable ".[test]" --constraint tests/floor.txt
	touch $@

harden: $(VENV)/.test  ## Run the long forms of the tests of hardening (some hours)
	$(BIN)/python -m tests.hardening.random_fits --runs 10000 --jobs 2 \
	    --log output/random_fits.jsonl
	$(BIN)/python -m tests.hardening.random_fits --further --runs 3000 --jobs 2 \
	    --log output/further_fits.jsonl
	SPARSEGPC_NEW_EXAMPLES=1 SCIPY_ARRAY_API=1 $(PYTEST)
	$(BIN)/python -m tests.hardening.interruption --points 50
	$(BIN)/python -m tests.hardening.signals --runs 20
	$(BIN)/python -m tests.hardening.concurrency
	$(BIN)/python -m tests.hardening.long_run
	$(BIN)/python -m tests.hardening.same_answer
	$(BIN)/python -m tests.hardening.model_sizes
	$(BIN)/python -m tests.hardening.memory_grid

lint: $(VENV)/.lint  ## Check style, imports between rooms, formatting, and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: $(VENV)/.lint  ## Format the code
	$(BIN)/ruff format .

# Both are built in environments of their own, the wheel from the source distribution.
dist: $(VENV)/.dist  ## Build what is released into dist/, check it, and try the wheel (a minute)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet dist/*.whl
	.venv-wheel/bin/python -I tests/wheel.py

docs: $(VENV)/.docs  ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

check-docs: docs  ## Check links between the built pages, and whether these fit a phone (with Chromium)
	$(BIN)/python docs/check_pages.py

bench: $(VENV)/.plot  ## Time, and compare with published tables and scikit-learn (short, no network)
	$(BIN)/python benchmarks/classification_tables.py --parts binary --sets breast --splits 2 \
	    --peers full
	$(BIN)/python benchmarks/classification_tables.py --parts multiclass --sets wine digits \
	    --splits 2 --points 50 --rows 300
	rm -f output/scaling.csv
	$(BIN)/python benchmarks/scaling.py --rows 1000 4000 16000 --points 25 50 100 \
	    --fixed-rows 5000 --fixed-points 50 --columns 5 50 --results output/scaling.csv
	$(BIN)/python benchmarks/evaluation_speed.py --set made --points 200 \
	    --tasks regression classification

# What to run; without SPARSEGPC_DATA only sets that scikit-learn ships or OpenML has.
SUITE ?=

tabular:  ## Run the tabular suite beside its peers (many hours; resumes, SUITE="--splits 1" is shorter)
	$(MAKE) .venv-tabular/.tabular VENV=.venv-tabular
	.venv-tabular/bin/python benchmarks/tabular.py $(SUITE)

clean:  ## Remove everything that the other targets made
	rm -rf $(VENV) .venv-floor .venv-tabular .venv-wheel build dist output .pytest_cache .ruff_cache *.egg-info \
	    docs/_build docs/_results docs/auto_examples docs/generated
