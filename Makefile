.DEFAULT_GOAL := help
.PHONY: help dev demo test test-slow test-adapters test-claude-code test-go test-typescript test-browser test-cluster test-train test-deploy release-check docs docs-serve screenshots fix bench-cluster generate bench bench-adapters bench-detect bench-guards bench-peers drift lock format lint types layers generated tests coverage clean bench-postgres

PY := .venv/bin/python
READY := .venv/.ready
RUN := .venv/.run

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

dev: $(RUN) ## set up what running demur takes, and serve the dashboard with a sample day
	@mkdir -p .demur_dev && cd .demur_dev && { test -f demur.toml || ../.venv/bin/demur init > /dev/null; }
	@cd .demur_dev && ../.venv/bin/demur serve --sample

demo: $(RUN) ## set up what running demur takes, and show a short tour in the terminal
	@$(PY) -m demur demo

test: format lint types layers generated tests ## format, lint, types, layers, generated files and tests, fastest first

test-slow: $(READY) ## the long fault, fuzz and load runs, and property tests with all their examples
	@HYPOTHESIS_PROFILE=full $(PY) -m pytest -m slow -n 0
	@HYPOTHESIS_PROFILE=full $(PY) -m pytest -m 'hypothesis and not (slow or browser or cluster or train or adapters or litellm or frameworks)'

test-browser: .venv-browser/.ready docs ## the dashboard and the site of the documentation in a real Chromium (which has to be installed)
	@if command -v chromium > /dev/null || command -v google-chrome > /dev/null; then .venv-browser/bin/python -m pytest tests/e2e -m browser -n 0; else echo "skipped: test-browser needs \`chromium\` or \`google-chrome\` on PATH (\`apt install chromium\`)"; fi

test-cluster: .venv-cluster/.ready ## triage, detection and queries on Spark and Ray in local mode (needs Java)
	@.venv-cluster/bin/python -m pytest tests/cluster tests/sql -m cluster -n 0

bench-cluster: .venv-cluster/.ready ## measure triage, detection and guards on Spark and Ray
	@.venv-cluster/bin/python bench/triage_engines.py
	@.venv-cluster/bin/python bench/arrow_batches.py

test-adapters: .venv-adapters/.ready .venv-litellm/.ready .venv-frameworks/.ready ## the adapters with the real frameworks and their fake models
	@.venv-adapters/bin/python -m mypy --no-error-summary --cache-dir .mypy_cache/adapters src/demur/integrations tests/adapters
	@.venv-adapters/bin/python -m pytest -m adapters tests
	@.venv-litellm/bin/python -m pytest -m litellm tests
	@.venv-frameworks/bin/python -m pytest -m frameworks tests/adapters tests/docs
	@.venv-litellm/bin/python tools/adapters_table.py --only litellm --to .demur_cache/litellm.json
	@.venv-frameworks/bin/python tools/adapters_table.py --only crewai google_adk llamaindex --to .demur_cache/frameworks.json
	@.venv-adapters/bin/python tools/adapters_table.py --with .demur_cache/litellm.json .demur_cache/frameworks.json

test-claude-code: .venv-adapters/.ready ## the hook in the versions of Claude Code that npm has (needs npm)
	@if command -v npm > /dev/null && npm ci --silent --ignore-scripts --prefix requirements/claude-code; then .venv-adapters/bin/python -m pytest -m adapters tests/adapters/test_claude_code.py; else echo "skipped: test-claude-code needs \`npm\` and its registry"; fi

test-go: ## Go's Parse, Format and Classify on the cases of the specification (needs Go)
	@if command -v go > /dev/null; then cd clients/go && go vet ./... && go test ./...; else echo "skipped: test-go needs \`go\`, which is not on PATH"; fi

# Node packages whose `npm test` runs. `.node` holds a Node from npm if the one on PATH is too old.
node-packages := clients/typescript tests/node/mcp

test-typescript: $(READY) .venv-adapters/.ready ## the TypeScript package against a running service, and MCP clients (needs npm)
	@$(PY) tools/node_tests.py $(node-packages)

test-train: .venv-train/.ready ## train a tiny model with preference pairs, and measure it
	@.venv-train/bin/python -m pytest -m train -n 0 --confcutdir=tests/train tests/train

test-deploy: .venv-deploy/.ready ## lint the Containerfile, and check the Kubernetes manifests and the systemd unit
	@.venv-deploy/bin/hadolint deploy/Containerfile
	@.venv-deploy/bin/kubernetes-validate --strict --quiet deploy/kubernetes/*.yaml
	@if command -v systemd-analyze > /dev/null; then mkdir -p build && sed "s#/opt/demur/bin/demur#/bin/true#" deploy/demur.service > build/demur.service && systemd-analyze verify build/demur.service; else echo "skipped: the unit needs \`systemd-analyze\` on PATH"; fi

# `-n` also reports references to names that exist nowhere, `-W` makes a failure of each warning, and
# `-a` writes the menu of each page anew.
docs: .venv-docs/.ready ## build the site of the documentation; a broken link or anchor fails
	@.venv-docs/bin/python -m sphinx -a -b html -W --keep-going -n -q -j auto -c docs/site -d build/doctrees . build/site && echo "== the site is in build/site"

docs-serve: docs ## serve the site on this machine, until Ctrl-C
	@.venv-docs/bin/python -m http.server --bind 127.0.0.1 --directory build/site 8010

screenshots: .venv-browser/.ready ## take the pictures of the dashboard anew (needs Chromium)
	@.venv-browser/bin/python tools/screenshots.py

release-check: .venv-release/.ready ## build what a release would publish, and check it as a stranger would (needs a package index)
	@.venv-release/bin/python tools/release_check.py

fix: $(READY) ## format and repair what can be repaired
	@$(PY) -m ruff check --fix --quiet . ; $(PY) -m ruff format --quiet .

generate: $(READY) ## write every generated file
	@$(PY) tools/generate.py

# Every table is printed; a bench that misses its aim fails the target at the end.
benches = missed=; for one in $(2); do $(1) bench/$$one.py $(3) || missed="$$missed $$one"; done; test -z "$$missed" || { echo "missed:$$missed"; exit 1; }

bench: $(READY) ## measure contract, policy, store, scan, output, pipeline, triage and evals
	@$(call benches,$(PY),contract policy store scan output pipeline triage evals)

bench-guards: $(READY) ## measure what guards find and wrongly stop; DATA=folder of labelled sets
	@$(call benches,$(PY),guards judgement commands,$(DATA))
	@$(PY) bench/guards_hostile.py

bench-detect: $(READY) ## measure refusal detection on labelled sets; DATA=folder of them
	@$(PY) bench/detect.py $(DATA)

drift: $(READY) ## find values of the newest SDKs that no mapping knows (installs them aside, runs none)
	@rm -rf .venv-drift && $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target .venv-drift --requirement requirements/drift.in
	@$(PY) tools/provider_drift.py .venv-drift

bench-adapters: $(READY) .venv-adapters/.ready .venv-litellm/.ready .venv-frameworks/.ready ## measure what adapters add, and what the MCP proxy and the hook take
	@$(call benches,.venv-adapters/bin/python,adapters langchain_hooks pydantic_ai_hooks)
	@.venv-frameworks/bin/python bench/adapters.py
	@.venv-litellm/bin/python bench/litellm_hooks.py
	@$(call benches,$(PY),mcp_proxy claude_hook)

bench-peers: .venv-bench/.ready ## measure decide() beside its peers (a separate, heavy environment)
	@.venv-bench/bin/python bench/decide.py
	@$(PY) bench/service.py

bench-postgres: $(READY) ## measure durable decisions on PostgreSQL beside plain rows
	@$(PY) bench/postgres.py

# pip before 23.3 ignores the pin of a package that another one asks for with an extra, unless the
# lock names the extra too.
lock: $(READY) ## pin the newest versions with hashes (needs uv)
	@uv pip compile pyproject.toml requirements/dev.in --extra arrow --extra ed25519 --extra evals --extra guards --extra learned --extra memory --extra observe --extra people \
	  --extra postgres --extra redis --extra service --extra triage --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --quiet --output-file requirements/dev.txt
	@uv pip compile pyproject.toml requirements/bench.in --extra memory --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --quiet --output-file requirements/bench.txt
	@for one in adapters browser deploy docs litellm release; do uv pip compile requirements/$$one.in --constraint requirements/dev.txt --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --quiet --output-file requirements/$$one.txt; done
	@uv pip compile pyproject.toml requirements/dev.in requirements/frameworks.in --extra guards --extra postgres --extra redis --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-header --no-annotate --no-strip-extras \
	  --quiet --output-file requirements/frameworks.txt
	@$(PY) tools/generate.py > /dev/null

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

# COVERAGE=1 also measures branches, and fails below the floor in pyproject.toml (slower).
tests: $(READY)
	@echo "== tests" && $(PY) -m pytest $(if $(COVERAGE),--cov --cov-report=term)

coverage: ## the tests with the share of branches they take (slower)
	@$(MAKE) --no-print-directory tests COVERAGE=1

clean: ## remove the environment and caches
	@rm -rf .venv .venv-adapters .venv-bench .venv-browser .venv-cluster .venv-deploy .venv-docs .venv-drift .venv-frameworks .venv-litellm .venv-release .venv-train .node clients/typescript/node_modules clients/typescript/dist tests/node/mcp/node_modules .demur_dev build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .demur_cache

# An environment is `.venv` or `.venv-NAME`, and `files-NAME` lists its requirements: a .txt is
# locked with hashes, a .in is not.
files-run := run.txt
files-dev := dev.txt
files-adapters := dev.txt adapters.txt
files-bench := bench.txt
files-browser := dev.txt browser.txt
files-cluster := dev.txt cluster.in
files-deploy := deploy.txt
files-docs := docs.txt
files-frameworks := frameworks.txt
files-litellm := dev.txt litellm.txt
files-release := release.txt
files-train := train.in

define set-up
	@python3 tools/set_up.py $(@D) $(1)
	@touch $@
endef

# `make dev` installs the packages that run demur into `.venv`; `make test` installs the rest.
$(RUN): $(addprefix requirements/,$(files-run)) pyproject.toml
	$(call set-up,$(files-run))

$(READY): $(addprefix requirements/,$(files-dev)) pyproject.toml
	$(call set-up,$(files-dev))
	@touch $(RUN)

.SECONDEXPANSION:
.venv-%/.ready: $$(addprefix requirements/,$$(files-$$*))
	$(call set-up,$(files-$*))
