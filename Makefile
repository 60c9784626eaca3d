# Two commands do everything, set-up included: `make open` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SEED ?= 1
TRIALS ?= 100000
CPU_TORCH ?= https://download.pytorch.org/whl/cpu

.PHONY: open page page-fresh docs notebooks wheel test test-all test-real test-gpu test-triton fuzz lint bench equality reliability clean

open: $(VENV)/.user  # says the page's address, opens it where there is a display, and serves until
	@$(BIN)/glassformer open $(OPEN)  # it is interrupted; OPEN=--check tries it, and ends

test: $(VENV)/.test  # every family, head, invariant and verb once
	$(BIN)/python -m pytest -n 2 -m "not gpu and not real"
	@$(BIN)/python tests/chromium.py  # says if the page was not tried, for want of a browser

test-all: $(VENV)/.test  # every configuration, seed and prompt; docs, notebooks, real weights that are here
	$(BIN)/python -m pytest -n 2 -m "not gpu" --all

page: page/node_modules/.package-lock.json  # into glassformer/page/static, with Node 20 or newer
	cd page && npm run check && npm test && npm run build

page-fresh: page  # what is committed is what the sources give
	git diff --exit-code --stat -- glassformer/page/static

docs: $(VENV)/.test  # the site, into build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet, which does not hear warnings

notebooks: $(VENV)/.test  # runs them, and keeps what they show
	$(BIN)/python tools/run_notebooks.py

wheel: $(VENV)/.release  # dist/: wheels and sources of glassformer (at most 80 MB) and glassformer-zoo (95 MB)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --outdir dist zoo
	$(BIN)/twine check --strict dist/*
	@for limit in glassformer-=80000000 glassformer_zoo-=95000000; do \
	  size=$$(cat dist/$${limit%=*}*.whl | wc -c); echo "$${limit%=*} $$size of $${limit#*=} bytes"; \
	  test $$size -le $${limit#*=} || exit 1; done

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/python tools/names.py

reliability: $(VENV)/.test  # tries every case of faults, layouts and odd requests; the table of docs/reliability.md
	rm -rf build/reliability
	$(BIN)/python -m pytest -n 2 --all tests/cli/test_user_files.py tests/cli/test_stopped.py \
	  tests/storage/test_faults.py tests/train/test_hostile_run.py tests/page/test_malformed_requests.py
	$(BIN)/python tools/reliability.py --collect

test-real: $(VENV)/.test  # on published weights; of those that cannot be fetched, tests are skipped
	-$(BIN)/glassformer fetch --all
	$(BIN)/python -m pytest -m real -rs

test-gpu: $(VENV)/.test
	$(BIN)/python -m pytest -m gpu

test-triton: $(VENV)/.test  # kernels of GPUs in Triton's interpreter, which torch must not find elsewhere
	$(BIN)/pip install --quiet --no-deps --target build/triton --upgrade triton
	TRITON_INTERPRET=1 PYTHONPATH=build/triton $(BIN)/python -m pytest tests/generate/backends/test_triton.py -m "not gpu"

fuzz: $(VENV)/.test  # damaged files for every reader; tests/fuzz/record.json keeps what came of it
	$(BIN)/python -m tests.fuzz --seed $(SEED) --trials $(TRIALS) --record

bench: $(VENV)/.test
	$(BIN)/python bench/forward.py
	$(BIN)/python bench/deberta.py
	$(BIN)/python bench/long.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/load.py
	$(BIN)/python bench/generate.py
	$(BIN)/python bench/translate.py
	$(BIN)/python bench/tasks.py
	$(BIN)/python bench/train.py  # looks for nanoGPT in peers/
	$(BIN)/python bench/page.py

equality: $(VENV)/.test  # measures every class against the reference and publishes the table
	rm -rf build/differences
	$(BIN)/python -m pytest -n 2 --all tests/families/test_reference.py
	$(BIN)/python tools/equality.py

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

page/node_modules/.package-lock.json: page/package-lock.json
	cd page && npm ci --no-audit --no-fund

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.11 ..."; false; }
	@echo "Setting up in $(VENV), once; most of it is PyTorch."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); false; }
# PyPI's PyTorch for Linux brings gigabytes of CUDA: where there is no GPU, the build for CPUs is asked for
# first. Where that cannot be reached, PyPI's will do.
	@if [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi > /dev/null; then \
	  $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --retries 1 --timeout 20 \
	    -c constraints.txt --index-url $(CPU_TORCH) torch 2> /dev/null || true; fi

$(VENV)/.user: $(VENV)/bin/python pyproject.toml zoo/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e zoo
	@touch $@

$(VENV)/.release: $(VENV)/bin/python pyproject.toml zoo/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]" -e zoo
	@touch $@ $(VENV)/.user

$(VENV)/.test: $(VENV)/bin/python pyproject.toml zoo/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]" -e zoo
	@touch $@ $(VENV)/.user
