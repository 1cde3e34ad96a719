# Each target does its own set-up in .venv, once, and says what it does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test quick shipped proofs docs pages notebooks site site-version models slow suites fuzz bench experiments editors release clean

demo: $(VENV)/.installed
	@echo "== a naive attention, exported from PyTorch by torch-mlir, compiled with -O stability"
	$(BIN)/hnfc examples/naive_attention.mlir -O stability --range -40:40 -o stable_attention.mlir
	@echo "== written: stable_attention.mlir"

test: $(VENV)/.installed-dev
	@echo "== style, types, tests (about twelve minutes on two cores)"
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# Needs no torch: the language, fingerprints, the prover's parts, formats, error algebra, the rewriter.
QUICK := tests/dsl tests/dialects/test_facts.py tests/test_imports.py $(addprefix tests/soundness/test_,balls.py check.py closing.py) tests/ieee/test_formats.py tests/error/test_algebra.py \
	$(addprefix tests/rewrite/test_,matcher.py greedy.py diagnosis.py canonicalization.py probing.py)

quick: $(VENV)/.installed-dev
	@echo "== the quick tests (about a minute on two cores)"
	$(BIN)/python -m pytest -q -n 2 $(QUICK)

shipped: $(VENV)/.installed
	@echo "== judging every rule that ships anew (minutes); the same sources give the same bytes"
	$(BIN)/python -m hnfc.core.verdicts

# apt-get is Debian's; elsewhere install coq (8.16 was used) with coq-coquelicot and coq-interval first.
proofs: $(VENV)/.installed
	@command -v coqc > /dev/null || (echo "== installing coq by apt-get, which needs the rights to (half a minute)" \
		&& apt-get install -y coq libcoq-coquelicot libcoq-interval)
	@echo "== writing the certificates of the rules that ship to build/proofs, and checking each by coqc (a quarter of an hour)"
	$(BIN)/python -m hnfc.core.certificates build/proofs

docs: pages site

pages: $(VENV)/.installed
	@echo "== writing docs/dialect.md, a page of all operations, and docs/rules.md, of all rules with their proofs"
	$(BIN)/python -m hnfc.report.dialect_document docs/dialect.md
	$(BIN)/python -m hnfc.report.rules_document docs/rules.md

# nbclient runs them in a kernel of this environment
notebooks: $(VENV)/.installed-dev
	@echo "== executing the notebooks of docs/notebooks anew (two minutes)"
	$(BIN)/python -m tests.notebooks.execution

site: $(VENV)/.installed-site
	@echo "== building the documentation as a site: build/site/index.html; a link that leads nowhere is an error"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# mike commits to the branch gh-pages of this clone; nothing is pushed
site-version: $(VENV)/.installed-site
	@echo "== adding this version of the site to the branch gh-pages, from which a host serves all versions"
	$(BIN)/mike deploy --update-aliases $$($(BIN)/python -c "import tomllib; print(tomllib.load(open('pyproject.toml', 'rb'))['project']['version'])") latest

models: $(VENV)/.installed-models
	$(BIN)/python -m pytest -q -m models

slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m slow

suites: $(VENV)/.installed-dev
	@echo "== other projects' tests run through hnfc (a quarter of an hour on two idle cores, hours with checkouts of StableHLO and torch-mlir); docs/compatibility.md says what came out"
	$(BIN)/python -m pytest -q -s -m suites tests/suites

fuzz: $(VENV)/.installed-dev
	@echo "== 14,000 faulty files of seven kinds (minutes); docs/reliability.md says what came out"
	$(BIN)/python -m tests.suites.fuzz --inputs 2000

bench: $(VENV)/.installed-models
	$(BIN)/python benchmarks/import_speed.py
	$(BIN)/python benchmarks/rewrite_speed.py
	$(BIN)/python benchmarks/check_speed.py
	$(BIN)/python benchmarks/torch_speed.py
	$(BIN)/python benchmarks/analysis_speed.py

experiments: $(VENV)/.installed-models
	@echo "== measuring what docs/experiments.md says (about half an hour)"
	$(BIN)/python benchmarks/experiments.py all

release: $(VENV)/.installed-dev
	@echo "== building and checking sdist and wheel in dist (some minutes; torch is installed once for each Python); nothing is published; SIGN=KEY signs the checksums by ssh-keygen"
	$(BIN)/python .ci/release.py

editors: $(VENV)/.installed-dev
	@echo "== building the extension for Visual Studio Code, running its tests, packing editors/vscode/hnfc-rules.vsix (needs npm)"
	cd editors/vscode && npm ci --no-audit --no-fund && npm test && npm run package

$(VENV)/bin/python:
	@echo "== making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "== installing hnfc and what it needs (no torch)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

# torch is pinned: a looser requirement may bring a CUDA build of several GB
$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "== installing what the tests need (torch for the CPU, IREE, pytest, ruff, mypy …)"
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/.installed-site: pyproject.toml $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[site]'
	@touch $@

$(VENV)/.installed-models: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[models]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info stable_attention.mlir
