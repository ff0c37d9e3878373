.DEFAULT_GOAL := help
.PHONY: help dev demo test test-slow test-adapters test-browser test-cluster test-train fix bench-cluster generate bench bench-adapters bench-detect bench-guards bench-peers drift lock format lint types layers generated tests coverage clean

PY := .venv/bin/python
READY := .venv/.ready

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

dev: $(READY) ## set up, fill a store with a sample day, and serve the dashboard
	@mkdir -p .demur_dev && cd .demur_dev && { test -f demur.toml || ../.venv/bin/demur init > /dev/null; }
	@cd .demur_dev && ../.venv/bin/demur serve --sample

demo: $(READY) ## set up, then run a short tour in the terminal
	@$(PY) -m demur demo

test: format lint types layers generated tests ## everything CI runs, fastest first

test-slow: $(READY) ## the long fault, fuzz and load runs
	@$(PY) -m pytest -m slow -n 0

test-browser: .venv-browser/.ready ## the dashboard in a real Chromium (which has to be installed)
	@.venv-browser/bin/python -m pytest tests/e2e -m browser -n 0

test-cluster: .venv-cluster/.ready ## triage on Spark and Ray in local mode (needs Java)
	@.venv-cluster/bin/python -m pytest tests/cluster -m cluster -n 0

bench-cluster: .venv-cluster/.ready ## measure triage on Spark and Ray
	@.venv-cluster/bin/python bench/triage_engines.py

.venv-cluster/.ready: requirements/dev.txt requirements/cluster.in
	@echo "== setting up .venv-cluster" && rm -rf .venv-cluster && python3 -m venv .venv-cluster
	@.venv-cluster/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	@.venv-cluster/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/cluster.in
	@.venv-cluster/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test-adapters: .venv-adapters/.ready .venv-litellm/.ready ## the adapters with the real frameworks and their fake models
	@.venv-adapters/bin/python -m mypy --no-error-summary --cache-dir .mypy_cache/adapters src/demur/integrations tests/adapters
	@.venv-adapters/bin/python -m pytest -m adapters tests
	@.venv-litellm/bin/python -m pytest -m litellm tests
	@.venv-litellm/bin/python tools/adapters_table.py --only litellm --to .demur_cache/played.json
	@.venv-adapters/bin/python tools/adapters_table.py --with .demur_cache/played.json

.venv-adapters/.ready .venv-litellm/.ready: .venv-%/.ready: requirements/dev.txt requirements/%.txt
	@echo "== setting up .venv-$*" && rm -rf .venv-$* && python3 -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt --requirement requirements/$*.txt
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test-train: .venv-train/.ready ## train a tiny model with preference pairs, and measure it
	@.venv-train/bin/python -m pytest -m train -n 0 --confcutdir=tests/train tests/train

.venv-train/.ready: requirements/train.in
	@echo "== setting up .venv-train" && rm -rf .venv-train && python3 -m venv .venv-train
	@.venv-train/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/train.in
	@.venv-train/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
	@touch $@

.venv-browser/.ready: requirements/dev.txt requirements/browser.txt
	@echo "== setting up .venv-browser" && rm -rf .venv-browser && python3 -m venv .venv-browser
	@.venv-browser/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt --requirement requirements/browser.txt
	@.venv-browser/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

fix: $(READY) ## format and repair what can be repaired
	@$(PY) -m ruff check --fix --quiet . ; $(PY) -m ruff format --quiet .

generate: $(READY) ## write everything that is generated from the registry
	@$(PY) tools/generate.py

bench: $(READY) ## measure: the contract beside plain `re`, policies as they grow, the store
	@$(PY) bench/contract.py
	@$(PY) bench/policy.py
	@$(PY) bench/store.py
	@$(PY) bench/scan.py
	@$(PY) bench/output.py
	@$(PY) bench/pipeline.py
	@$(PY) bench/triage.py
	@$(PY) bench/evals.py

bench-guards: $(READY) ## measure what guards find and wrongly stop; DATA=folder of labelled sets
	@$(PY) bench/guards.py $(DATA)
	@$(PY) bench/commands.py $(DATA)
	@$(PY) bench/guards_hostile.py

bench-detect: $(READY) ## measure refusal detection on labelled sets; DATA=folder of them
	@$(PY) bench/detect.py $(DATA)

drift: $(READY) ## find values of the newest SDKs that no mapping knows (installs them aside, runs none)
	@rm -rf .venv-drift && $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target .venv-drift --requirement requirements/drift.in
	@$(PY) tools/provider_drift.py .venv-drift

bench-adapters: $(READY) .venv-adapters/.ready .venv-litellm/.ready ## measure what adapters add, and what the MCP proxy and the hook take
	@.venv-adapters/bin/python bench/adapters.py
	@.venv-adapters/bin/python bench/langchain_hooks.py
	@.venv-adapters/bin/python bench/pydantic_ai_hooks.py
	@.venv-litellm/bin/python bench/litellm_hooks.py
	@$(PY) bench/mcp_proxy.py
	@$(PY) bench/claude_hook.py

bench-peers: .venv-bench/.ready ## measure decide() beside its peers (a separate, heavy environment)
	@.venv-bench/bin/python bench/decide.py
	@$(PY) bench/service.py

.venv-bench/.ready: requirements/bench.txt
	@echo "== setting up .venv-bench" && rm -rf .venv-bench && python3 -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/bench.txt
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(READY) ## pin the newest versions with hashes (needs uv)
	@uv pip compile pyproject.toml requirements/dev.in --extra arrow --extra ed25519 --extra evals --extra guards --extra memory --extra observe \
	  --extra postgres --extra redis --extra service --extra triage --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate \
	  --quiet --output-file requirements/dev.txt
	@uv pip compile pyproject.toml requirements/bench.in --extra memory --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate \
	  --quiet --output-file requirements/bench.txt
	@for one in adapters litellm; do uv pip compile requirements/$$one.in --constraint requirements/dev.txt --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate \
	  --quiet --output-file requirements/$$one.txt; done
	@uv pip compile requirements/browser.in --constraint requirements/dev.txt --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate \
	  --quiet --output-file requirements/browser.txt

format: $(READY)
	@echo "== format" && $(PY) -m ruff format --check --quiet .

lint: $(READY)
	@echo "== lint" && $(PY) -m ruff check --quiet . && .venv/bin/demur codes lint --strict src examples

types: $(READY)
	@echo "== types" && $(PY) -m mypy --no-error-summary

layers: $(READY)
	@echo "== layers" && .venv/bin/lint-imports --no-logo

generated: $(READY)
	@echo "== generated" && $(PY) tools/generate.py --check

tests: $(READY)
	@echo "== tests" && $(PY) -m pytest

coverage: $(READY) ## the tests again, with the share of branches they take (slower)
	@$(PY) -m pytest --cov --cov-report=term

clean: ## remove the environment and caches
	@rm -rf .venv .venv-adapters .venv-bench .venv-browser .venv-cluster .venv-drift .venv-litellm .venv-train .demur_dev .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .demur_cache

$(READY): requirements/dev.txt pyproject.toml
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "demur needs Python 3.11 or newer; python3 is " + sys.version.split()[0])'
	@echo "== setting up .venv" && rm -rf .venv && python3 -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
