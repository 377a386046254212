# Everything a fresh machine needs beyond git, make and Python 3.11 to 3.13 is set up here.
# The newest that runs; asked for once, and only when an environment is made.
PYTHON  = $(eval PYTHON := $$(shell tools/find-python newest))$(PYTHON)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# TensorFlow is optional: what runs without it is tested in an environment that lacks it.
VENV_TENSORFLOW  := .venv-tensorflow
BIN_TENSORFLOW   := $(VENV_TENSORFLOW)/bin
READY_TENSORFLOW := $(VENV_TENSORFLOW)/.ready
# The oldest Python and the oldest versions of all that nbdist promises to run with; see tests/oldest.txt.
PYTHON_OLDEST  = $(eval PYTHON_OLDEST := $$(shell tools/find-python oldest))$(PYTHON_OLDEST)
VENV_OLDEST   := .venv-oldest
BIN_OLDEST    := $(VENV_OLDEST)/bin
READY_OLDEST  := $(VENV_OLDEST)/.ready
# What depends on the versions: not the front end, whose tools are not there, and not the launchers.
TESTS_OLDEST  := $(addprefix tests/integration/test_,cells.py jax_rows.py) \
                 tests/engine tests/pod tests/unit \
                 $(addprefix --ignore=tests/unit/,contract/test_types.py view/test_labextension.py)
# In the order in which they begin: the longest first.
TESTS_IN_STEP := $(addprefix tests/in_step/test_,two_hundred_failures.py table_of_four.py table_of_two.py \
                 table_of_hosts.py other_ways.py repair_disturbed.py lost.py under_way.py)
# XLA for TPUs, which compiles where there is none; 700 MB, which nothing else needs.
VENV_REHEARSE  := .venv-rehearse
BIN_REHEARSE   := $(VENV_REHEARSE)/bin
READY_REHEARSE := $(VENV_REHEARSE)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, as in many images of containers, each kernel and each agent of a test compiles all of nbdist anew.
unexport PYTHONDONTWRITEBYTECODE

SOURCES := $(shell find labextension/src labextension/style labextension/schema -type f) \
           $(addprefix labextension/,package.json yarn.lock .yarnrc.yml tsconfig.json tsconfig.build.json)

.PHONY: demo docs test test-docs test-recovery test-sessions test-plan test-variants test-keras test-hosts test-tensorflow test-oldest test-rehearse versions test-in-step test-faults chaos test-scale bench check types golden golden-programs screenshots clean help

help:
	@echo "make demo             the tour on 4 processes, in JupyterLab or in this terminal"
	@echo "make docs             the documentation, as a site in build/docs"
	@echo "make test             all checks, and the tests of all that runs on one machine with JAX"
	@echo "make test-hosts       the tests of SSH, Slurm, MPI and TPU pods, on hosts that they make"
	@echo "make test-docs        the tests of examples, notebooks and the site"
	@echo "make test-recovery    the tests of cells that fail, processes and kernels that end, saving and resizing"
	@echo "make test-sessions    the tests of buttons in JupyterLab, agents, checks, the debugger, several kernels"
	@echo "make test-plan        the tests of plans, and of what a call will send"
	@echo "make test-keras       the tests of sessions that compute with Keras"
	@echo "make test-variants    tests that take seconds, in the cases that make test leaves out"
	@echo "make test-tensorflow  the tests with TensorFlow, which is optional"
	@echo "make test-oldest      the tests that depend on versions, with the oldest ones"
	@echo "make test-rehearse    programs compiled for TPUs that are not there"
	@echo "make test-in-step     failures of many kinds, after which all values are kept"
	@echo "make test-faults      that, and faults at random moments, many times"
	@echo "make chaos            many faults of all kinds in one training"
	@echo "make test-scale       the demo in a terminal, a day of work, and more processes"
	@echo "make versions         what the tests run with; WRITE=--write puts it into the README"
	@echo "make bench            timings, each against its floor in the same run"
	@echo "make check            formatting, types and architecture only"
	@echo "make types            schema, TypeScript types and constants from nbdist/contract/"
	@echo "make golden           golden snapshots, from real JAX shardings"
	@echo "make golden-programs  what XLA for TPUs makes of a few programs"
	@echo "make screenshots      the README's pictures, taken by the browser tests"

# An environment with the browser part built into it; brought up to date when what either is made
# from has changed. The build asks for node by itself, as a wheel, where there is none.
$(READY): pyproject.toml hatch_build.py $(SOURCES)
	@test -n "$(PYTHON)"
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else f"nbdist needs Python 3.11 to 3.13; {sys.executable} is {v[0]}.{v[1]}. Run make PYTHON=/path/to/python3.13")'
	@$(PYTHON) -c 'import sys; print("Python", sys.version.split()[0], "at", sys.executable)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

# For files from which the browser part is built: an environment in which that part may be out of date is enough.
MADE := $(if $(wildcard $(READY)),,$(READY))

$(READY_TENSORFLOW): pyproject.toml $(READY)
	@test -x $(BIN_TENSORFLOW)/python || $(PYTHON) -m venv $(VENV_TENSORFLOW)
	$(BIN_TENSORFLOW)/python -m pip install --quiet --upgrade pip
	NBDIST_SKIP_JS=1 $(BIN_TENSORFLOW)/python -m pip install --quiet --editable '.[test-tensorflow]'
	@touch $@

$(READY_OLDEST): pyproject.toml tests/oldest.txt
	@test -n "$(PYTHON_OLDEST)"
	@$(PYTHON_OLDEST) -c 'import sys; print("Python", sys.version.split()[0], "at", sys.executable, "for the oldest versions")'
	@test "$(PYTHON_OLDEST)" != "$(PYTHON)" || echo "No older Python was found: the oldest versions run on the same one."
	@test -x $(BIN_OLDEST)/python || $(PYTHON_OLDEST) -m venv $(VENV_OLDEST)
	$(BIN_OLDEST)/python -m pip install --quiet --upgrade pip
	NBDIST_SKIP_JS=1 $(BIN_OLDEST)/python -m pip install --quiet --constraint tests/oldest.txt --editable '.[test-oldest]'
	@touch $@

$(READY_REHEARSE): pyproject.toml $(READY)
	@test -x $(BIN_REHEARSE)/python || $(PYTHON) -m venv $(VENV_REHEARSE)
	$(BIN_REHEARSE)/python -m pip install --quiet --upgrade pip
	NBDIST_SKIP_JS=1 $(BIN_REHEARSE)/python -m pip install --quiet --editable '.[test-rehearse]'
	@touch $@

demo: $(READY)
	$(BIN)/nbdist demo

# Strict: a dead link or reference is an error. It reaches for nothing on the network, and runs the notebooks.
docs: $(READY)
	NBDIST_EXECUTE=1 $(BIN)/python -m sphinx -W --keep-going -n -q docs build/docs
	@echo build/docs/index.html

# Files run in the order of `testpaths`, in which those that take long come first: what is left at the end is short.
# Three at a time on two cores: a fifth of the time a test waits.
TESTS_DOCS  := tests/docs tests/browser/test_tour.py $(addprefix tests/integration/test_,tour.py break_it.py)
TESTS_KERAS := tests/browser/test_keras.py $(sort $(wildcard tests/integration/test_keras_*.py))
TESTS_RECOVERY := $(addprefix tests/browser/test_,break.py replaced_in_lab.py resized_in_lab.py) \
                  $(addprefix tests/integration/test_,attach.py controller.py coordination.py copies.py faults.py \
                  doubt.py kept_and_lost.py made_arrays.py process_things.py replaced.py replaced_modules.py resizing.py restarted.py \
                  saving.py) tests/in_step/test_containers.py tests/campaigns/test_chaos.py tests/engine/frameworks/jax/repair
TESTS_SCALE := tests/browser/test_working_day.py $(addprefix tests/campaigns/test_,scale.py demo.py working_day.py)
TESTS_SESSIONS := $(addprefix tests/browser/test_,controls_in_lab.py messages_in_lab.py) \
                  $(addprefix tests/integration/test_,tools.py check.py debugger.py values_broken.py order.py jax_rows.py \
                  late.py background.py widgets.py small_shared_memory.py)
TESTS_PLAN := $(addprefix tests/browser/test_,explain.py plan.py plan_in_lab.py program.py) \
              tests/integration/test_plan.py
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test: $(READY)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.testbed.install
	$(MAKE) --no-print-directory check
	$(PYTEST) -m "not variant" $(addprefix --ignore=,$(TESTS_DOCS) $(TESTS_RECOVERY) $(TESTS_SESSIONS) $(TESTS_PLAN) $(TESTS_KERAS) $(TESTS_SCALE))
	@$(BIN)/python -m tests.versions newest

# Of tests that take seconds, the cases beside the first.
test-variants: $(READY)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.testbed.install
	$(PYTEST) -m variant tests/browser tests/integration \
		$(addprefix --ignore=,$(TESTS_DOCS) $(TESTS_RECOVERY) $(TESTS_SESSIONS) $(TESTS_PLAN) $(TESTS_KERAS) $(TESTS_SCALE))

# What a reader runs: the examples of the pages, the notebooks, and the site that is made of the pages.
test-docs: $(READY)
	$(BIN)/python -m tests.browser.install
	$(PYTEST) $(TESTS_DOCS)

# Going on after failures, and after the end of processes, kernels and the controller; saving, other numbers of processes.
test-recovery: $(READY)
	$(BIN)/python -m tests.browser.install
	$(PYTEST) $(TESTS_RECOVERY)

# Sessions as people use them now and then: by buttons, by agents, with checks, a debugger, from several kernels, with
# widgets and cells in the background.
test-sessions: $(READY)
	$(BIN)/python -m tests.browser.install
	$(PYTEST) $(TESTS_SESSIONS)

# Plans of pods, and what a compiled program sends, in pages and sessions.
test-plan: $(READY)
	$(BIN)/python -m tests.browser.install
	$(PYTEST) $(TESTS_PLAN)

test-keras: $(READY)
	$(BIN)/python -m tests.browser.install
	$(PYTEST) $(TESTS_KERAS)

test-hosts: $(READY)
	$(BIN)/python -m tests.testbed.install
	$(PYTEST) tests/hosts

test-tensorflow: $(READY_TENSORFLOW)
	$(BIN)/python -m tests.testbed.install
	$(BIN_TENSORFLOW)/python -m pytest -n 3 --dist loadfile tests/tensorflow
	@$(BIN_TENSORFLOW)/python -m tests.versions tensorflow

test-oldest: $(READY_OLDEST)
	$(BIN_OLDEST)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS_OLDEST)
	@$(BIN_OLDEST)/python -m tests.versions oldest

test-rehearse: $(READY_REHEARSE)
	$(BIN_REHEARSE)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder tests/rehearsal
	$(BIN)/python -m tests.browser.install
	TPU_LIBRARY_PATH=$$($(BIN_REHEARSE)/python -c 'from nbdist.rehearsal import libtpu; print(libtpu.find().path)') \
		$(BIN)/python -m pytest tests/browser/test_rehearse_in_lab.py

# What the tests run with, and whether the README names it.
versions: $(READY) $(READY_TENSORFLOW) $(READY_OLDEST)
	@$(BIN)/python -m tests.versions newest $(WRITE)
	@$(BIN_TENSORFLOW)/python -m tests.versions tensorflow $(WRITE)
	@$(BIN_OLDEST)/python -m tests.versions oldest $(WRITE)

# Longer campaigns; NBDIST_SEED=N chooses the faults, NBDIST_FAILURES=N (in one training) and NBDIST_ROUNDS=N (of each
# other campaign) how many; NBDIST_CELLS=N how many cells kernels send beside each other; NBDIST_EVERY=N takes every Nth row of the tables.
test-in-step: $(READY)
	$(BIN)/python -m tests.testbed.install
	$(PYTEST) $(TESTS_IN_STEP)

test-faults: test-in-step $(READY_TENSORFLOW)
	$(BIN)/python -m tests.testbed.install
	$(PYTEST) tests/campaigns/test_host_faults.py tests/campaigns/test_faults.py \
		tests/campaigns/test_host_interrupts.py tests/campaigns/test_scheduler_faults.py \
		tests/campaigns/test_shared_connection.py tests/campaigns/test_order.py \
		tests/campaigns/test_pauses.py tests/campaigns/test_edits.py
	$(BIN_TENSORFLOW)/python -m pytest -n 2 --dist loadfile tests/campaigns/test_tensorflow_faults.py \
		tests/campaigns/test_tensorflow_hosts.py

# Faults of all kinds in one training; NBDIST_FAULTS=N how many, NBDIST_HOST_FAULTS=N on three hosts, where one that is
# lost takes half a minute to be given up. What became of each is the table of build/chaos.md. With BESIDE="-n 2" both
# run at the same time, and what takes how long says less.
NBDIST_FAULTS      ?= 300
NBDIST_HOST_FAULTS ?= 24
chaos: $(READY)
	$(BIN)/python -m tests.testbed.install
	@mkdir -p build
	@rm -f build/chaos.md
	NBDIST_FAULTS=$(NBDIST_FAULTS) NBDIST_HOST_FAULTS=$(NBDIST_HOST_FAULTS) NBDIST_CHAOS=build/chaos.md \
		$(BIN)/python -m pytest $(BESIDE) tests/campaigns/test_chaos.py tests/campaigns/test_chaos_hosts.py

test-scale: $(READY)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m pytest $(TESTS_SCALE)

check: $(READY)
	$(BIN)/python -m tests.checks

bench: $(READY) $(READY_REHEARSE)
	$(BIN)/python -m tests.browser.install
	$(BIN)/python -m tests.bench
	$(BIN_REHEARSE)/python -m tests.bench.rehearse

types: $(MADE)
	$(BIN)/python labextension/tools/make_schema.py
	$(BIN)/python labextension/tools/make_constants.py
	cd labextension && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm types

golden: $(MADE)
	$(BIN)/python tests/golden/make.py

golden-programs: $(READY_REHEARSE)
	TPU_SKIP_MDS_QUERY=1 JAX_PLATFORMS=cpu $(BIN_REHEARSE)/python -m tests.golden.make_programs

screenshots: $(READY)
	$(BIN)/python -m tests.browser.install
	NBDIST_SHOTS=docs $(BIN)/python -m pytest tests/browser -k "screenshot or test_k4_k5"

clean:
	rm -rf $(VENV) $(VENV_TENSORFLOW) $(VENV_OLDEST) $(VENV_REHEARSE) labextension/node_modules labextension/lib nbdist/static nbdist/labextension build/docs
