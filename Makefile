# Each target does its own set-up: Python 3.11 or newer and make are all it takes.
PYTHON ?= python3
# A Python that is named has environments of its own, such as .venv-3.12.1: what another one has made is never taken.
ifneq ($(origin PYTHON),file)
BASE = $(shell $(1) -c 'import sys; print("-%d.%d.%d" % sys.version_info[:3], sys.base_prefix)' 2>/dev/null)
WANTED := $(call BASE,$(PYTHON))
$(if $(WANTED),,$(error $(PYTHON) is no Python that runs))
OF := $(firstword $(WANTED))
endif
VENV := .venv$(OF)
LOWEST := .venv-lowest$(OF)
BENCH := .venv-bench$(OF)
DOCS := .venv-docs$(OF)
ifneq ($(origin PYTHON),file)
$(if $(filter-out $(WANTED),$(call BASE,$(VENV)/bin/python)),$(error another Python of this version made $(VENV): remove it))
endif
PIP := bin/pip install -qq --disable-pip-version-check
# The newest axe-core, which the dashboard is checked with: of its package the one file, and no Playwright.
AXE := $(PIP) --no-deps 'axe-playwright-python>=0.1.8'
ARGS ?=
EFFORT ?= 1
# What differs between Pythons, and what the libraries do for us: seconds, on each one that is here.
QUICK := tests/contract tests/conformance tests/transports/framing tests/supervisor/tailing/test_framing.py \
  tests/transports/processes tests/integration/test_dispatch_workers.py tests/integration/test_command_clients.py \
  tests/clients/hook tests/clients/test_examples.py tests/cli/test_commands.py tests/cli/test_up_and_config.py \
  tests/house/test_packaging.py tests/house/test_public_names.py
# Tests and the processes that they start are read from bytecode; an environment may forbid to write it.
export PYTHONDONTWRITEBYTECODE :=
WORKERS := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: demo test quick lowest torture mutants check docs links bench e2e e2e-all systemd clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed  ## the bus at work on recorded sessions, e.g. make demo ARGS="--speed 4"
	@$(VENV)/bin/lifebus demo $(ARGS)

test: $(VENV)/.developing  ## every test, e.g. make test ARGS="-k ledger"
	@$(VENV)/bin/pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

quick: $(VENV)/.developing  ## a part of the tests, the demonstration and, where it is cached, Codex: what .ci/run does on every Python
	@$(VENV)/bin/pytest -q -n $(WORKERS) --dist worksteal $(QUICK) $(ARGS)
	@$(VENV)/bin/lifebus demo --check
	@$(VENV)/bin/python tests/e2e/run.py --cached codex -- -k words_of_a_client

lowest: $(LOWEST)/.developing  ## the same part with each library in the lowest version that pyproject.toml allows
	@$(LOWEST)/bin/lifebus version --all
	@$(LOWEST)/bin/pytest -q -n $(WORKERS) --dist worksteal $(QUICK) $(ARGS)
	@$(LOWEST)/bin/lifebus demo --check

torture: $(VENV)/.developing  ## the fault tests and the properties at length, hours; e.g. make torture EFFORT=0.1 ARGS="-k kill"
	@LIFEBUS_TORTURE=$(EFFORT) $(VENV)/bin/pytest -q -n auto --dist load $(ARGS)

mutants: $(VENV)/.developing  ## break the sources on purpose, see the suite notice, e.g. make mutants ARGS="beacon"
	@$(VENV)/bin/python tests/mutants/run.py $(ARGS)

check: $(VENV)/.developing  ## lint, format, both type checkers, layers
	@$(VENV)/bin/ruff check --quiet
	@$(VENV)/bin/ruff format --check --quiet
	@$(VENV)/bin/mypy --no-error-summary
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright
	@$(VENV)/bin/pytest -q tests/house/test_layers.py tests/house/test_house.py tests/house/test_rooms.py tests/house/test_references.py

docs: $(DOCS)/.documenting  ## the documentation as a site with search, in build/docs; a link that leads nowhere fails
	@$(DOCS)/bin/sphinx-build -q -W --keep-going -d build/doctrees -c docs/site . build/docs $(ARGS)
	@echo "build/docs/index.html"

links: $(DOCS)/.documenting  ## whether the documentation's links to other sites open
	@$(DOCS)/bin/sphinx-build -q -d build/doctrees -b linkcheck -c docs/site . build/links $(ARGS)

bench: $(BENCH)/.installed  ## lifebus beside Redis and JetStream, e.g. make bench ARGS="--quick"
	@PYTHONPATH=tests $(BENCH)/bin/python -m bench.run $(ARGS)

e2e: $(VENV)/.developing  ## the real Codex, its app-server and Claude Code, offline, e.g. make e2e ARGS="-k resume"
	@$(VENV)/bin/python tests/e2e/run.py codex app_server claude -- $(ARGS)

e2e-all: $(VENV)/.developing  ## all six harnesses; the first run downloads 2 GB into the user's cache
	@$(VENV)/bin/python tests/e2e/run.py -- $(ARGS)

systemd: $(VENV)/.developing  ## `lifebus service` under a systemd that is booted for it: root, and Debian's systemd-container
	@$(VENV)/bin/pytest -q tests/e2e/test_systemd.py $(ARGS)

clean:  ## everything that the other targets made
	@rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python $(LOWEST)/bin/python $(BENCH)/bin/python $(DOCS)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("lifebus needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(patsubst %/bin/python,%,$@) (once)" >&2
	@$(PYTHON) -m venv $(patsubst %/bin/python,%,$@)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@$(VENV)/$(PIP) --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@$(call group,$(VENV),dev)
	@$(VENV)/$(AXE)
	@touch $@

# What those libraries need themselves is as new as pip likes, and so are the tools.
$(LOWEST)/.developing: pyproject.toml | $(LOWEST)/bin/python
	@sed -n '/^dependencies = \[/,/^]/s/^ *"\(.*\)>=\(.*\)",/\1==\2/p' pyproject.toml > $(LOWEST)/lowest.txt
	@$(LOWEST)/$(PIP) --editable . --constraint $(LOWEST)/lowest.txt
	@$(call group,$(LOWEST),dev) --constraint $(LOWEST)/lowest.txt
	@touch $@

$(BENCH)/.installed: pyproject.toml | $(BENCH)/bin/python
	@$(BENCH)/$(PIP) --editable '.[http]'
	@$(call group,$(BENCH),bench)
	@touch $@

$(DOCS)/.documenting: pyproject.toml | $(DOCS)/bin/python
	@$(call group,$(DOCS),docs)
	@touch $@

# Older versions of pip cannot install a dependency group, so the names come from pyproject.toml.
group = $(1)/bin/python -c \
  'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")' \
  $(2) > $(1)/$(2).txt && $(1)/$(PIP) --requirement $(1)/$(2).txt
