SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first interpreter that is new enough and can make environments; override with PYTHON=...
PYTHON ?= $(shell for candidate in python3.13 python3.12 python3.11 python3 python; do \
	"$$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& echo "$$candidate" && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-strip-extras --no-emit-index-url --no-emit-find-links

# Every start of a process would compile all that it imports, where the surroundings say so.
unexport PYTHONDONTWRITEBYTECODE

CORES := $(shell getconf _NPROCESSORS_ONLN)
# One more than there are cores, as many tests wait for processes that they have started.
TEST_PROCESSES := $(shell expr $(CORES) + 1)

AUDIT_VENV := .venv-audit
CLIENTS_VENV := .venv-clients
DOCS_VENV := .venv-docs
ORACLE_VENV := .venv-oracle
FUZZ_VENV := .venv-fuzz
PARSERS_VENV := .venv-parsers

# Stamps: what serving needs, what testing needs on top of it, and what is apart from both.
SERVE_READY := $(VENV)/serve-ready
TEST_READY := $(VENV)/test-ready
AUDIT_READY := $(AUDIT_VENV)/ready
CLIENTS_READY := $(CLIENTS_VENV)/ready
DOCS_READY := $(DOCS_VENV)/ready
ORACLE_READY := $(ORACLE_VENV)/ready
FUZZ_READY := $(FUZZ_VENV)/ready
PARSERS_READY := $(PARSERS_VENV)/ready

# The guide is its own stamp.
GUIDE := service/trainfit/web/site/index.html
GUIDE_SOURCES := mkdocs.yml $(wildcard *.md deploy/*.md docs/*.md docs/images/* tools/guide/*)

##@ Use

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(SERVE_READY) $(TEST_READY) ## Build .venv from the lock files

.PHONY: serve
serve: $(SERVE_READY) ## Serve on 127.0.0.1:8080 (TRAINFIT_HOST, TRAINFIT_PORT)
	@test ! -e $(DOCS_READY) || $(MAKE) --no-print-directory guide || echo 'The guide is as it was before.' >&2
	exec $(BIN)/trainfit serve

.PHONY: guide
guide: $(GUIDE) ## Build the guide from docs/, which is served at /guide

##@ Verify

.PHONY: test
test: $(TEST_READY) $(GUIDE) ## Run every check and every test
	@$(MAKE) --no-print-directory --jobs=2 check every-test

.PHONY: every-test
every-test: $(TEST_READY) $(GUIDE) ## Run every test, and no check
	$(BIN)/python -m pytest -m "not alone" --numprocesses $(TEST_PROCESSES) --dist loadscope --no-loadscope-reorder
	$(BIN)/python -m pytest -m alone $$(grep --recursive --files-with-matches --include='*.py' mark.alone tests)

.PHONY: coverage
coverage: $(TEST_READY) ## Run the tests of `make test`, and say which lines none of them reaches
	$(BIN)/python -m pytest -m "not alone" --numprocesses $(TEST_PROCESSES) --dist loadscope --no-loadscope-reorder --cov

.PHONY: check
check: $(TEST_READY) $(GUIDE) ## Lint, formatting, types, import contracts and links
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers $(CORES)
	$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: $(TEST_READY) ## Time the estimator, the command line and the service
	$(BIN)/python -m tests.bench

.PHONY: oracle
oracle: $(ORACLE_READY) ## Run PyTorch's steps anew and compare with the recorded ones, to the byte
	$(ORACLE_VENV)/bin/python -m tests.oracle --check --live tests/data/torch_steps_here.jsonl

.PHONY: parsers
parsers: $(PARSERS_READY) $(TEST_READY) ## Compare what is read of launches with what the programs' own parsers make of them
	$(BIN)/python -m pytest -q tests/parsers

.PHONY: fuzz
fuzz: $(FUZZ_READY) ## Feed launches that no one would write to what reads them, for a minute
	PYTHONPATH=service $(FUZZ_VENV)/bin/python -m tests.fuzz

.PHONY: audit
audit: $(AUDIT_READY) ## Look up known vulnerabilities of what is locked (needs a network)
	$(AUDIT_VENV)/bin/python -m tests.audit requirements*.lock

.PHONY: soak
soak: $(TEST_READY) ## Load a service for five minutes; nothing may fail or pile up
	$(BIN)/python -m tests.soak

##@ Change

.PHONY: format
format: $(TEST_READY) ## Format, and apply the fixes that are safe
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: openapi
openapi: $(TEST_READY) ## Regenerate openapi/openapi.json, and the flags that the page writes
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.flags

.PHONY: docs
docs: $(TEST_READY) ## Regenerate the tables, listings and pictures of the documentation
	$(BIN)/python -m tools.docs

.PHONY: pictures
pictures: $(TEST_READY) ## Take the pictures of the page anew (needs chromium and node)
	$(BIN)/python -m tools.pictures

.PHONY: manifests
manifests: $(TEST_READY) ## Regenerate the alerts for the Prometheus Operator
	$(BIN)/python -m tools.prometheus_rule

.PHONY: release
release: $(TEST_READY) ## Say what the release of VERSION would do; with DO=1, make it
	$(BIN)/python -m tools.release $(VERSION) $(if $(DO),--do)

.PHONY: lock
lock: ## Lock the dependencies anew, with hashes (needs uv)
	$(COMPILE) --upgrade pyproject.toml --output-file requirements.lock
	$(COMPILE) --upgrade pyproject.toml --extra otel --output-file requirements-otel.lock
	$(COMPILE) --upgrade --group build --output-file requirements-build.lock
	$(COMPILE) --upgrade pyproject.toml --extra otel --group dev --output-file requirements-dev.lock
	$(COMPILE) --upgrade --group pyproject.toml:audit --output-file requirements-audit.lock
	$(COMPILE) --upgrade --group pyproject.toml:clients --output-file requirements-clients.lock
	$(COMPILE) --upgrade --group pyproject.toml:docs --output-file requirements-docs.lock
	$(COMPILE) --upgrade --group pyproject.toml:fuzz --output-file requirements-fuzz.lock
	$(COMPILE) --upgrade --group pyproject.toml:oracle --output-file requirements-oracle.lock
	$(COMPILE) --upgrade --group pyproject.toml:parsers --output-file requirements-parsers.lock
	$(COMPILE) --upgrade --no-deps --group pyproject.toml:parsers-alone \
		--output-file requirements-parsers-alone.lock

$(SERVE_READY): requirements.lock requirements-build.lock pyproject.toml service/trainfit/__init__.py
	@test -n "$(PYTHON)" || { echo 'Trainfit needs Python 3.11 or newer with venv; none was found.' >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(PIP_INSTALL) --require-hashes -r requirements.lock -r requirements-build.lock
	$(PIP_INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

$(TEST_READY): requirements-dev.lock $(SERVE_READY)
	$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

$(GUIDE): $(DOCS_READY) $(GUIDE_SOURCES)
	$(DOCS_VENV)/bin/python -m tools.guide

# Of what these environments hold, little is used: Python compiles that when it is.
$(AUDIT_READY) $(CLIENTS_READY) $(DOCS_READY) $(ORACLE_READY): .venv-%/ready: requirements-%.lock
	@test -x $(@D)/bin/python || "$(PYTHON)" -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-input \
		--require-hashes -r $<
	@touch $@

$(PARSERS_READY): requirements-parsers.lock requirements-parsers-alone.lock
	@test -x $(PARSERS_VENV)/bin/python || "$(PYTHON)" -m venv $(PARSERS_VENV)
	@for lock in $^; do $(PARSERS_VENV)/bin/python -m pip install --quiet --no-compile --no-input \
		--disable-pip-version-check --no-deps --require-hashes -r $$lock; done
	@touch $@

$(FUZZ_READY): requirements.lock requirements-fuzz.lock
	@test -x $(FUZZ_VENV)/bin/python || "$(PYTHON)" -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
		--require-hashes -r requirements.lock -r requirements-fuzz.lock
	@touch $@
