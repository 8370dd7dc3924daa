# Everything a developer runs. `make demo` and `make test` set up what they need in .venv at first use.

VENV    ?= .venv
BIN     := $(VENV)/bin
# The first Python on the PATH that is new enough; name another with `make … PYTHON=/path/to/python`.
PYTHON  ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
             $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
             && echo $$python && break; done)
PIP     := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What the server's command needs is there after the first stamp, what tests and lint need after the second.
SERVER  := $(VENV)/.server-installed
DEV     := $(VENV)/.dev-installed
# Dependency groups of pyproject.toml; with bench, the benchmarks' tests run whole.
TOOLS   ?= dev
ADDRESS ?= 127.0.0.1:50051
COVERAGE := 95
# Processes that run the tests; each has servers of its own.
JOBS    ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo serve test chaos soak fuzz coverage test-cpp test-node test-torch torch-table container lint bench generate format hardware clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(SERVER) ## Start a server on this machine's CPU, run an operator through it, show each step
	$(BIN)/aclnn-serve demo

serve: $(SERVER) ## Serve this machine's CPU on ADDRESS (127.0.0.1:50051)
	$(BIN)/aclnn-serve serve --listen $(ADDRESS)

# Files are handed to the processes in the order of collection: the longest come first.
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

test: lint ## Run lint, then every test but those of `make chaos` and `make test-torch`
	$(PYTEST) --ignore tests/cpp --ignore tests/chaos --ignore tests/torch_npu
	$(MAKE) --no-print-directory test-cpp test-node

chaos: $(DEV) ## Break connections, kill servers and clients, run out of memory: half a minute; CHAOS_LONG=1 for a quarter of an hour
	$(PYTEST) tests/chaos

SOAK_SECONDS ?= 1800

soak: $(DEV) ## Run clients of every kind at once for SOAK_SECONDS (1800), and tell latencies and growth
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -s tests/soak/test_mixed.py

FUZZ_SECONDS ?= 60
# Where inputs are kept that reached something new, and those that found something.
FUZZ_DIR     ?= .fuzz

fuzz: $(DEV) ## Fuzz the wire, led by coverage, for FUZZ_SECONDS (60); FUZZ_INPUT=file tries one input
	@$(PIP) install --group fuzz
	@mkdir -p $(FUZZ_DIR)/inputs $(FUZZ_DIR)/found
	$(BIN)/python -m tests.hostile.fuzz $(if $(FUZZ_INPUT),$(FUZZ_INPUT),-max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=$(FUZZ_DIR)/found/ -print_final_stats=1 $(FUZZ_DIR)/inputs)

coverage: $(DEV) ## Run the Python tests, and check that they reach 95 % of the lines; takes twice as long
	$(PYTEST) --ignore tests/cpp --ignore tests/chaos --ignore tests/torch_npu --cov --cov-report=term --cov-fail-under=$(COVERAGE)

test-cpp: $(DEV) ## Build and test the C library, where there are a compiler and gRPC's headers
	$(BIN)/python -m pytest tests/cpp --numprocesses $(JOBS) --dist loadfile

test-node: $(DEV) ## Check and test the Node.js client, where there is Node.js 18.18 or newer
	@ACLNN_PYTHON=$(abspath $(BIN)/python) client/node/run_tests.sh

# PyTorch is half a gigabyte, so it has an environment of its own.
TORCH_VENV ?= .venv-torch
TORCH      := $(TORCH_VENV)/.installed
TORCH_RUN  := $(TORCH_VENV)/bin/aclnn-serve torch -- $(TORCH_VENV)/bin/python

test-torch: $(TORCH) ## Train with torch_npu's own wheel on the C library and a server: a few minutes
	$(TORCH_VENV)/bin/aclnn-serve torch --build
	$(TORCH_RUN) -m pytest --override-ini filterwarnings=default tests/torch_npu

torch-table: $(TORCH) ## Write the table of torch's calls in docs/pytorch.md again
	$(TORCH_VENV)/bin/aclnn-serve torch --build
	$(TORCH_RUN) -m tests.torch_npu.table

$(TORCH): pyproject.toml | $(BIN)/python
	@echo "installing torch and torch-npu into $(TORCH_VENV)"
	@$(BIN)/python -m venv $(TORCH_VENV)
	@$(TORCH_VENV)/bin/pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	@$(TORCH_VENV)/bin/pip --quiet install --editable '.[torch,jit]' --group torch-test
	@touch $@

IMAGE ?= localhost/aclnn-serve:test

container: $(DEV) ## Build the image and test it: a server in a container, clients outside
	@$(PIP) install --group deploy
	BASE=$(BASE) deploy/container/build.sh $(IMAGE)
	CONTAINER_IMAGE=$(IMAGE) CONTAINER_BASE=$(if $(filter debian,$(BASE)),localhost/aclnn-serve-base) \
	  $(BIN)/python -m pytest tests/deploy

# The operator table's generator; it writes the client's typed functions and the docs' table.
OPERATORS := $(wildcard server/aclnn_server/operators/generate.py)

lint: $(DEV) ## Check style, types, import order, and that generated files are current
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python proto/generate.py --check
	$(if $(OPERATORS),$(BIN)/python -m aclnn_server.operators.generate --check)
	$(BIN)/python -m aclnn_server.metrics.generate --check
	$(BIN)/python docs/generate.py --check
	$(BIN)/python deploy/monitoring/generate.py --check

bench: $(DEV) ## Measure aclnn-serve beside other systems, up to 10 minutes; see benchmarks/README.md
	@$(PIP) install --group bench
	$(BIN)/python -m benchmarks

generate: $(DEV) ## Write the generated files again: protobuf code, operator table, metrics
	$(BIN)/python proto/generate.py
	$(if $(OPERATORS),$(BIN)/python -m aclnn_server.operators.generate)
	$(BIN)/python -m aclnn_server.metrics.generate
	$(if $(wildcard client/node/node_modules),$(BIN)/python client/node/generate_messages.py)
	$(BIN)/python docs/generate.py
	$(BIN)/python deploy/monitoring/generate.py

format: $(DEV) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

hardware: $(DEV) ## Run the tests that need an NPU with CANN
	$(BIN)/python -m pytest -m ascend_hardware

clean: ## Remove .venv and what the tools leave behind
	rm -rf client/node/build client/node/dist client/node/node_modules examples/node/node_modules
	rm -rf $(VENV) $(TORCH_VENV) $(FUZZ_DIR) dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "aclnn-serve needs Python 3.11 or newer, and none is on the PATH." \
	  "Install one, or name it: make … PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "aclnn-serve needs" \
	  "Python 3.11 or newer; $(PYTHON) is older, or does not run." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module." \
	  "On Debian and Ubuntu: apt-get install $(notdir $(PYTHON))-venv" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(SERVER): pyproject.toml | $(BIN)/python
	@echo "installing aclnn-serve into $(VENV)"
	@$(PIP) install --editable '.[server]'
	@touch $@

# Dependency groups need pip 25.1, which is newer than what most Pythons bring.
$(DEV): pyproject.toml $(SERVER)
	@echo "installing the developer's tools into $(VENV)"
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install $(addprefix --group ,$(TOOLS))
	@touch $@
