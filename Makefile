# Everything a developer runs. `make help` lists it. Nothing here needs a terminal, and a run's leftovers never matter to the next one.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
LINT := .venv-lint/bin
# The source tree, seen by Ansible as berth.stateful (tools/venv.py makes the link).
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.venv/collections
# The user's own ansible.cfg must not change what is tested.
export ANSIBLE_CONFIG := /dev/null
export ANSIBLE_LOCALHOST_WARNING := False

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- the ground ------------------------------------------------------------------------------------------------------------
.PHONY: deps venv venv-lint
deps: ## install the missing Debian packages (as root)
	@python3 tools/debian_packages.py tools/debian-packages.txt

venv: ## .venv with pinned packages and this project, editable
	@python3 tools/venv.py .venv requirements-dev.txt --editable

venv-lint:
	@python3 tools/venv.py .venv-lint requirements-lint.txt

.PHONY: unit
unit: venv ## tests of the pure core and of the glue: no cluster
	$(BIN)/pytest tests/core tests/unit $(PYTEST)

.PHONY: clean
clean: ## remove what make made (not the development cluster: make demo-down)
	rm -rf build .venv .venv-lint .ansible .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
