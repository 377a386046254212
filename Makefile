# Everything a fresh machine needs beyond git, make and Python 3.11 to 3.13 is set up here.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# TensorFlow is optional: what runs without it is tested in an environment that lacks it.
VENV_TENSORFLOW  := .venv-tensorflow
BIN_TENSORFLOW   := $(VENV_TENSORFLOW)/bin
READY_TENSORFLOW := $(VENV_TENSORFLOW)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SOURCES := $(shell find labextension/src labextension/style -type f) \
           $(addprefix labextension/,package.json yarn.lock .yarnrc.yml tsconfig.json tsconfig.build.json)

.PHONY: demo test test-faults test-scale bench check types golden screenshots clean help

help:
	@echo "make demo         the tour on 4 processes, in JupyterLab or in this terminal"
	@echo "make test         all checks and tests"
	@echo "make test-faults  faults at random moments, many times"
	@echo "make test-scale   more processes than the tour has"
	@echo "make bench        timings, each against its floor in the same run"
	@echo "make check        formatting, types and architecture only"
	@echo "make types        schema and TypeScript types from nbdist/snapshot.py"
	@echo "make golden       golden snapshots, from real JAX shardings"
	@echo "make screenshots  the README's pictures, taken by the browser tests"

# An environment with the browser part built into it; brought up to date when what either is made
# from has changed. The build asks for node by itself, as a wheel, where there is none.
$(READY): pyproject.toml hatch_build.py $(SOURCES)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else f"nbdist needs Python 3.11 to 3.13; {sys.executable} is {v[0]}.{v[1]}. Run make PYTHON=/path/to/python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

$(READY_TENSORFLOW): pyproject.toml $(READY)
	@test -x $(BIN_TENSORFLOW)/python || $(PYTHON) -m venv $(VENV_TENSORFLOW)
	$(BIN_TENSORFLOW)/python -m pip install --quiet --upgrade pip
	NBDIST_SKIP_JS=1 $(BIN_TENSORFLOW)/python -m pip install --quiet --editable '.[test-tensorflow]'
	@touch $@

demo: $(READY)
	$(BIN)/nbdist demo

# Tests mostly wait, so that two processors serve three of them. Files run in the order of `testpaths`, in which those
# that take long come first: what is left at the end is short.
test: $(READY) $(READY_TENSORFLOW)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.testbed.install
	$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
	$(BIN_TENSORFLOW)/python -m pytest -n 2 --dist loadfile tests/tensorflow

# Longer campaigns; NBDIST_SEED=N and NBDIST_ROUNDS=N choose the faults and how many.
test-faults: $(READY) $(READY_TENSORFLOW)
	$(BIN)/python -m tests.testbed.install
	$(BIN)/python -m pytest tests/campaigns/test_faults.py tests/campaigns/test_host_faults.py \
		tests/campaigns/test_host_interrupts.py tests/campaigns/test_scheduler_faults.py \
		tests/hosts/test_bad_hosts.py
	$(BIN_TENSORFLOW)/python -m pytest tests/campaigns/test_tensorflow_faults.py tests/campaigns/test_tensorflow_hosts.py

test-scale: $(READY)
	$(BIN)/python -m pytest tests/campaigns/test_scale.py

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --verbose
	$(BIN)/python -m tests.frontend_check

bench: $(READY)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.bench

types: $(READY)
	$(BIN)/python labextension/tools/make_schema.py
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm types

golden: $(READY)
	$(BIN)/python tests/golden/make.py

screenshots: $(READY)
	$(BIN)/python -m tests.browser.install
	NBDIST_SHOTS=docs $(BIN)/python -m pytest tests/browser -k "screenshot or test_k4_k5"

clean:
	rm -rf $(VENV) $(VENV_TENSORFLOW) labextension/node_modules labextension/lib nbdist/static nbdist/labextension
