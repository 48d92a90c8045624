# Two commands do all set-up: `make demo` and `make test`. Both create what they need and can be repeated.

# PYTHON is an interpreter, or the version of one that is on PATH or installed by pyenv: `make test PYTHON=3.10`.
# The default has its environment in .venv, each other version in one of its own.
PYTHON ?= python3
ifeq ($(PYTHON),python3)
VENV ?= .venv
INTERPRETER := python3
else
INTERPRETER := $(shell for found in $(PYTHON) python$(PYTHON) \
  $$(ls -d "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(PYTHON)/bin/python \
  "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(PYTHON).*/bin/python 2>/dev/null | sort -rV); do \
  "$$found" -c '' 2>/dev/null && echo "$$found" && break; done)
ifeq ($(INTERPRETER),)
$(error PYTHON=$(PYTHON): there is no such interpreter on PATH or in pyenv; name a version such as 3.12, or a path)
endif
VENV ?= .venv-$(shell $(INTERPRETER) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin
DEMO_DIR ?= demo-output
TESTS ?= tests
SOURCES := $(sort $(shell find app signatures retrieval lms programs compile -type f -not -name '*.pyc'))
# The list of source files, not their dates: a file that comes or goes renews the installation, an edit does not.
NAMES := $(VENV)/.files-$(shell printf '%s' '$(SOURCES)' | cksum | cut -d' ' -f1)
# Python compiles a file when it is first imported, and keeps the result (below): most of what is installed never is.
INSTALL = $(BIN)/python -m pip install -qq --no-compile --constraint constraints.txt
TREE := build/__editable__.knowgap-*/knowgap

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PYTHONUTF8 = 1
export PYTHONDONTWRITEBYTECODE =
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help demo test install install-test resolve lint format types imports collect unit docs bench clean

help: ## show the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# The pip that comes with Python may be years old, and takes twice as long as today's.
$(VENV)/.created:
	$(INTERPRETER) -m venv $(VENV)
	$(INSTALL) pip
	@touch $@

# torch goes first and alone: its version is pinned, so that no other package can pull in another build of it.
$(VENV)/.core: $(VENV)/.created pyproject.toml constraints.txt
	@echo "installing knowgap and what it needs (once; a few minutes)"
	$(INSTALL) torch
	$(INSTALL) --editable '.[documents,serve]' --config-settings editable_mode=strict
	@rm -f $(VENV)/.files-*; touch $(NAMES) $@

$(NAMES): $(VENV)/.core
	@test -e $@ || $(INSTALL) --no-deps --editable . --config-settings editable_mode=strict
	@rm -f $(VENV)/.files-*; touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "installing what the tests need (once)"
	$(INSTALL) --editable '.[test]' --config-settings editable_mode=strict
	@touch $@

install: $(VENV)/.core $(NAMES) ## create the environment

install-test: install $(VENV)/.test ## the same, with what the tests need

demo: install ## the whole loop, offline: index, ask, compile, tune, compare, load; LM=, API_BASE= and LIMIT= for another model
	@PATH="$(abspath $(BIN)):$$PATH" $(if $(LM),KNOWGAP_LM=$(LM)) $(if $(API_BASE),KNOWGAP_API_BASE=$(API_BASE)) $(if $(LIMIT),KNOWGAP_LIMIT=$(LIMIT)) \
	  ./demo.sh $(DEMO_DIR)

test: install-test ## lint, types, import contracts, documentation, tests, notebooks; PYTHON=3.10 for another version
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint types imports docs collect
	@$(MAKE) --no-print-directory unit

resolve: install ## check that constraints.txt can be installed on every Python that is promised
	$(BIN)/python -m pip install --quiet uv
	@for version in 3.10 3.11 3.12 3.13; do \
	  $(BIN)/uv pip compile --quiet --python-version $$version --only-binary :all: --constraint constraints.txt \
	    --all-extras pyproject.toml --output-file /dev/null || exit 1; \
	  echo "Python $$version: constraints.txt resolves"; \
	done

lint: install-test ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install-test ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install-test ## basedpyright, over the tree as it is installed
	@rm -rf build/types && mkdir -p build/types && cp -rL $(TREE) build/types/knowgap
	$(BIN)/basedpyright --warnings --pythonpath $(BIN)/python

imports: install-test ## who may import whom
	$(BIN)/lint-imports

collect: install-test # compiles what tests import, and the tests, once: each worker would, beside the others; `unit` says what fails
	@$(BIN)/python -m pytest -q --collect-only tests > /dev/null 2>&1 || true

unit: install-test ## the tests, and the notebooks, or TESTS=…; one thread each, since the workers keep all cores busy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal $(TESTS)

docs: install-test ## the documentation, in build/site
	@mkdir -p build
	$(BIN)/typer knowgap.cli.main utils docs --name knowgap --output build/commands.md
	$(BIN)/zensical build --strict

bench: install-test ## the tests that take over ten seconds, then the benchmarks; KNOWGAP_TEST_DATA=/path/to/data adds real questions
	$(BIN)/python -m pytest -q -m long tests
	$(BIN)/python benchmarks/run.py

clean: ## remove the environments and all outputs
	rm -rf .venv .venv-* $(VENV) build *.egg-info $(DEMO_DIR) .pytest_cache .ruff_cache
