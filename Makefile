# Everything starts from a fresh clone with Python 3.11 or newer, git and make; `make help` lists
# the targets. Where apt-get is there and root (or sudo without a password) is too, missing
# servers are installed from Debian packages; elsewhere they are named and what needs them skips.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
EXTRAS := dev,postgres,bench,redis,nats
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Programs are started by the hundred, by tests and benchmarks: none is to compile what another has.
unexport PYTHONDONTWRITEBYTECODE

CODE := $(wildcard triage tests bench examples)
TOOLS := $(wildcard tools_lib)
SHELL_FILES := .ci/run $(wildcard scripts/*.sh)
ARGS ?=
# Two more than there are cores: many tests wait for a server to come up.
# The order of the folders is kept: files with few tests, which otherwise come last, are the slow ones.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

.PHONY: help
help: ## list the targets
	@echo 'triage: make TARGET [ARGS="…"]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.stamp: pyproject.toml constraints.txt scripts/venv.sh
	@PYTHON='$(PYTHON)' scripts/venv.sh '$(VENV)' '.[$(EXTRAS)]'
	@touch $@

.PHONY: setup
setup: $(VENV)/.stamp ## make .venv and install what is missing
	@scripts/servers.sh

.PHONY: demo
demo: $(VENV)/.stamp ## a day of the outbound dock, decided while you watch (a minute, no server)
	@$(BIN)/python -m bench.demo $(ARGS)

.PHONY: demo-host
demo-host: setup ## a real alert about this machine, from Prometheus (about a minute)
	@$(BIN)/python -m examples.host.demo $(ARGS)

.PHONY: world
world: $(VENV)/.stamp ## the dock's world that triage.toml serves (half a minute the first time)
	@$(BIN)/python -m bench.demo --world

.PHONY: lint
lint: $(VENV)/.stamp ## style, types, import direction, shell scripts, Dockerfile
	@echo 'lint: ruff'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo 'lint: mypy --strict'
	@$(BIN)/mypy --strict --explicit-package-bases --no-error-summary $(CODE) $(TOOLS)
	@echo 'lint: import direction'
	@$(BIN)/lint-imports --no-logo >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@if command -v shellcheck >/dev/null; then echo 'lint: shellcheck'; shellcheck $(SHELL_FILES); \
	else echo 'lint: no shellcheck here, shell scripts not checked'; fi
	@hadolint=$$(PATH="$(BIN):$$PATH" command -v hadolint || true); \
	if [ -n "$$hadolint" ]; then echo 'lint: hadolint'; "$$hadolint" Dockerfile; \
	else echo 'lint: no hadolint here, Dockerfile not checked'; fi

.PHONY: test
test: setup ## lint and every test, side by side
	@$(MAKE) --jobs=2 lint tests

.PHONY: tests
tests: $(VENV)/.stamp
	@$(BIN)/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=6 --dist=loadfile --no-loadscope-reorder $(ARGS)

.PHONY: bench
bench: setup ## every measurement, into bench/results (25 minutes on two cores)
	@$(BIN)/python -m bench all

.PHONY: bench-fallback
bench-fallback: setup ## what concerns the fallback, into bench/results (as long again)
	@$(BIN)/python -m bench all fallback

.PHONY: bench-deliveries
bench-deliveries: setup ## what concerns queues and replicas, into bench/results (an hour)
	@$(BIN)/python -m bench all deliveries

.PHONY: bench-making
bench-making: setup ## what concerns making and watching tools, into bench/results (an hour)
	@$(BIN)/python -m bench all making

.PHONY: pins
pins: ## pin constraints.txt anew, from the newest versions pyproject.toml allows
	@rm -rf build/pins
	@PYTHON='$(PYTHON)' CONSTRAINTS=/dev/null scripts/venv.sh build/pins '.[$(EXTRAS)]'
	@build/pins/bin/python -m pip freeze --exclude-editable --exclude triage >constraints.txt
	@rm -rf build/pins
	@echo "constraints.txt: $$(wc -l <constraints.txt) pins"

.PHONY: clean
clean: ## remove what the other targets made
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache .demo .bench
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
