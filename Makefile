# `make run` and `make test` need git, make and Python 3.12; everything else is set up in .venv/ from requirements.lock.
#   PYTHON=/path/to/python3.12   which interpreter to use (else: python3.12 on PATH, else the newest one of pyenv)
#   ARGS="task=stack num_demos=500"   more arguments for `make run`; ARGS="-k config" for `make test`

VENV  := .venv
PY    := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# The peer that experiments/throughput compares with lives in an environment of its own: it brings 110 packages.
PEER  := .venv-isaaclab
ISAACLAB_TESTS := tests/envs/on_isaaclab tests/recorders/test_isaaclab_term.py
# An extra of .venv/ itself: it adds two packages and changes none.
WARP := $(VENV)/.warp
# Likewise; it adds six packages and changes none.
CLUSTER := $(VENV)/.cluster
# The W&B-compatible server that tests talk to, likewise; its licence (CC BY-NC 4.0) is not for commercial use.
WANDB_SERVER := .venv-openwandb
JOBS  ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow experiments experiments-smoke docs warp test-warp test-gpu cluster test-cluster \
  isaaclab test-isaaclab test-isaaclab-smoke openwandb test-wandb check format lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 30

setup: $(STAMP) ## create .venv/ from the lock file (every other target does it when needed)

run: $(STAMP) ## generate 100 demos of the pick task into outputs/
	$(PY) run.py task=pick recorder=async $(ARGS)

test: check ## lint, types and the fast tests
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

test-slow: $(STAMP) ## the tests that take minutes
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m "slow and not gpu and not isaaclab and not warp" $(ARGS)

warp: $(WARP) ## add MuJoCo-Warp to .venv/, for env=mujoco_warp (400 MB)

test-warp: $(WARP) ## the tests of env=mujoco_warp on the CPU; the first time its kernels are compiled, for minutes
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m "warp and not gpu" $(ARGS)

test-gpu: $(WARP) ## the tests that need a GPU; skipped without one
	$(PY) -m pytest -q -rs -m gpu $(ARGS)

cluster: $(CLUSTER) ## add Ray to .venv/, for cluster=ray (200 MB)

test-cluster: $(CLUSTER) ## the tests of cluster=ray, on a Ray cluster of this machine
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m cluster $(ARGS)

experiments: $(STAMP) ## every experiment at full size, one after the other (hours; on a quiet machine)
	OMP_NUM_THREADS=1 $(PY) -m experiments.run_all $(ARGS)

experiments-smoke: $(STAMP) ## every experiment at a toy size, into outputs/smoke/ (minutes)
	OMP_NUM_THREADS=1 $(PY) -m experiments.run_all --smoke $(ARGS)

docs: $(STAMP) ## the documentation site, into site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet $(ARGS)

isaaclab: $(PEER)/.installed ## create .venv-isaaclab/, for env=isaaclab and to compare with (8 GB; Linux, glibc 2.35 or newer)

test-isaaclab: $(PEER)/.installed ## the tests of env=isaaclab, and against Isaac Lab Mimic
	OMP_NUM_THREADS=1 $(PEER)/bin/python -m pytest -q -m isaaclab $(ARGS)

test-isaaclab-smoke: $(PEER)/.installed ## a few of them, from source demos to a dataset
	OMP_NUM_THREADS=1 $(PEER)/bin/python -m pytest -q -m "isaaclab and not slow" $(ISAACLAB_TESTS) $(ARGS)

openwandb: $(WANDB_SERVER)/.installed ## create .venv-openwandb/, with a W&B-compatible server for the tests (60 MB)

test-wandb: $(WANDB_SERVER)/.installed ## the tests of tracker=wandb against a server
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m slow tests/trackers $(ARGS)

check: $(STAMP) ## ruff and ty
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m ty check

format: $(STAMP) ## let ruff rewrite the sources
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# Of the lines it is given, those of packages that requirements.lock does not have.
ADDED = awk -F'[= ]' 'NR == FNR { known[$$1]; next } !($$1 in known)' requirements.lock -

# Newest versions that pyproject.toml allows, for every platform; without index addresses, so that any mirror will do.
# Isaac Lab's botocore wants an older python-dateutil than the rest may have.
lock: $(STAMP) ## write requirements.lock anew (needs uv, which setup installs)
	$(PY) -m uv pip compile pyproject.toml --extra dev --universal --upgrade --python-version 3.12 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet --output-file requirements.lock
	grep -v '^python-dateutil==' requirements.lock | $(PY) -m uv pip compile pyproject.toml --extra dev --extra isaaclab \
	  --constraint - --upgrade --python-version 3.12 --python-platform x86_64-manylinux_2_35 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet --output-file requirements-isaaclab.lock
	$(PY) -m uv pip compile pyproject.toml --extra mujoco_warp --constraint requirements.lock --upgrade --universal \
	  --python-version 3.12 --no-emit-index-url --no-annotate --no-header --quiet \
	  | $(ADDED) > requirements-warp.lock
	$(PY) -m uv pip compile pyproject.toml --extra cluster --constraint requirements.lock --upgrade --universal \
	  --python-version 3.12 --no-emit-index-url --no-annotate --no-header --quiet \
	  | $(ADDED) > requirements-cluster.lock

clean: ## remove .venv/, .venv-isaaclab/, .venv-openwandb/ and caches, site/; outputs/ stays
	rm -rf $(VENV) $(PEER) $(WANDB_SERVER) site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip compiles what it installs, and uv only when told to. Without it every process compiles torch and LeRobot again
# where PYTHONDONTWRITEBYTECODE is set, as in many containers: 4 and 8 s of processor time each.
# A candidate must run and be 3.12: pyenv's shim `python3.12` is on PATH even when it refuses to start.
$(STAMP): requirements.lock pyproject.toml
	@set -eu; \
	works() { "$$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1; }; \
	die() { echo "make: $$1" >&2; exit 1; }; \
	if ! works $(PY); then \
	  python="$(PYTHON)"; \
	  if [ -n "$$python" ]; then \
	    works "$$python" || die "PYTHON=$$python is not a working Python 3.12"; \
	  else \
	    candidates=$$(IFS=:; for d in $$PATH; do echo "$$d/python3.12"; done; \
	      ls -d "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.12*/bin/python 2>/dev/null | sort -rV || true); \
	    for c in $$candidates; do if works "$$c"; then python="$$c"; break; fi; done; \
	    [ -n "$$python" ] || die "no Python 3.12 on PATH or in pyenv; install it (e.g. apt install python3.12 python3.12-venv, or pyenv install 3.12) or name it: make PYTHON=/path/to/python3.12"; \
	  fi; \
	  "$$python" -c 'import venv, ensurepip' 2>/dev/null || die "$$python has no venv module; install it (e.g. apt install python3.12-venv)"; \
	  echo "Creating $(VENV) with $$python"; \
	  "$$python" -m venv --clear $(VENV); \
	fi; \
	$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null; \
	if $(PY) -m uv --version >/dev/null 2>&1 || $(PY) -m pip install -qq --disable-pip-version-check uv; \
	then install="$(PY) -m uv pip install --compile-bytecode --python $(PY)"; \
	else echo "uv cannot be installed; going on with pip, which is slower"; install="$(PY) -m pip install --disable-pip-version-check"; fi; \
	echo "Installing requirements.lock into $(VENV) (with torch; minutes the first time)"; \
	$$install --quiet --requirement requirements.lock; \
	$$install --quiet --no-deps --no-build-isolation --editable .; \
	touch $(STAMP)

$(WARP): requirements-warp.lock $(STAMP)
	@$(PY) -m uv --version >/dev/null 2>&1 && install="$(PY) -m uv pip install --compile-bytecode --python $(PY)" \
	  || install="$(PY) -m pip install --disable-pip-version-check"; \
	$$install --quiet --requirement requirements-warp.lock --constraint requirements.lock
	@touch $@

$(CLUSTER): requirements-cluster.lock $(STAMP)
	@$(PY) -m uv --version >/dev/null 2>&1 && install="$(PY) -m uv pip install --compile-bytecode --python $(PY)" \
	  || install="$(PY) -m pip install --disable-pip-version-check"; \
	$$install --quiet --requirement requirements-cluster.lock --constraint requirements.lock
	@touch $@

$(PEER)/.installed: requirements-isaaclab.lock pyproject.toml | $(STAMP)
	@set -eu; \
	$(PY) -m venv --clear $(PEER); \
	if $(PY) -m uv --version >/dev/null 2>&1; \
	then install="$(PY) -m uv pip install --compile-bytecode --python $(PEER)/bin/python"; \
	else install="$(PEER)/bin/python -m pip install --disable-pip-version-check"; fi; \
	echo "Installing requirements-isaaclab.lock into $(PEER)"; \
	$$install --quiet --requirement requirements-isaaclab.lock; \
	$$install --quiet --no-deps --no-build-isolation --editable .; \
	touch $@

$(WANDB_SERVER)/.installed: | $(STAMP)
	@set -eu; \
	$(PY) -m venv --clear $(WANDB_SERVER); \
	$(WANDB_SERVER)/bin/python -m pip install --quiet --disable-pip-version-check openwandb==0.5.25; \
	touch $@
