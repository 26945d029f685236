#!/usr/bin/env bash
# The main job on ten tasks: record, report, export. `make demo` sets everything up and runs this.
set -euo pipefail
bench="${VENV:-.venv}/bin/mcp-bench"
out="${DEMO_OUT:-demo-out}"
export MCP_BENCH_HOME="$out/home"
mkdir -p "$out"

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s$ mcp-bench %s%s\n' "$bold" "$*" "$plain"; }
run() { say "$@"; "$bench" "$@"; }

# The oracle plays each task's reference solution over real MCP; with dropped calls it fails some.
run record --agent oracle --benchmark agentdojo --split train --limit 10
run record --agent oracle --benchmark agentdojo --split train --limit 10 --agent-option drop=0.6
if [ -n "${OPENAI_BASE_URL:-}" ]; then
    # A real model, where an OpenAI-compatible endpoint is at hand (MODEL names the model).
    run record --agent chat --model "${MODEL:-default}" --benchmark agentdojo --split train --limit 10 || true
fi
run report
run export --min-partial 0.5 --format trl --out "$out/train.jsonl" --force
printf '\nThe training data: %s\nThe recordings: %s\n' "$out/train.jsonl" "$MCP_BENCH_HOME/runs"
