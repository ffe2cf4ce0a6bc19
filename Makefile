# Every target creates the virtual environment when it is missing.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

DOCS ?= docs
Q    ?= What does a citation point at?

# Rows of the source designs that this version delivers.
DELIVERED ?= S1-01..S1-93 S1-103..S1-106 S3-01..S3-40 S4-16..S4-22

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-slow test-faults test-node requirements check format protos wheel-test clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	touch $@

demo: $(STAMP) ## Ask a question about Markdown documents: make demo DOCS=folder Q="…"
	$(BIN)/python scripts/demo.py --docs "$(DOCS)" --question "$(Q)"

serve: $(STAMP) ## Run all services in one process on 127.0.0.1:50051, data in groundwire-data
	$(BIN)/groundwire serve --data groundwire-data

test: $(STAMP) ## Run the tests
	$(BIN)/pytest -m "not slow and not faults and not node"

test-slow: $(STAMP) ## Run the tests that take minutes
	$(BIN)/pytest -m slow --timeout 1800

test-faults: $(STAMP) ## Run the tests that kill processes
	$(BIN)/pytest -m faults --timeout 1800

test-node: $(STAMP) ## Run the client written in another language (needs Node.js and npm)
	$(BIN)/pytest -m node --timeout 600

requirements: $(STAMP) ## Print which row of the source designs is shown by which tests
	$(BIN)/python scripts/requirements_table.py $(DELIVERED:%=--require %)

check: $(STAMP) ## Lint, types, import rules, contract, freshness of generated code
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell docs protos/groundwire shared services scripts *.md
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/python scripts/generate_protos.py --check

format: $(STAMP) ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

protos: $(STAMP) ## Generate the Python stubs from the protos
	$(BIN)/python scripts/generate_protos.py

wheel-test: $(STAMP) ## Build the wheel and run the tests against it, without the sources
	$(BIN)/python scripts/test_wheel.py

clean: ## Remove everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache groundwire-data
