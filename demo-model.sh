#!/usr/bin/env bash
# The whole chain with a real open model: SmolLM2-135M is fetched and measured, the oracle teaches it over real MCP, it
# is trained, served, and measured again, on tasks of levels 1 and 2. `make demo-model` sets everything up and runs
# this; typed again, it continues where it stopped. QUICK=1 takes two families and a task or two of each. The other
# variables make it larger or smaller.
set -euo pipefail
bench="${VENV:-.venv}/bin/mcp-bench"
out="${DEMO_OUT:-demo-model-out}"
export MCP_BENCH_HOME="${DEMO_HOME:-$out/home}"
mkdir -p "$out"

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
run() {
    printf '\n%s$ mcp-bench %s%s\n' "$bold" "$*" "$plain"
    "$bench" "$@"
}

if [ "${QUICK:-}" ]; then
    families=${FAMILIES:-2} train=(1 1) dev=(1 1) test=(1 1)
else # of each family: 750 rows of level 1 and 216 of level 2; at least 100 tasks in each cell of the table
    families=${FAMILIES:-100} train=(30 6) dev=(4 3) test=(10 7)
fi
read -r -a train <<< "${TRAIN:-${train[*]}}" # of level 1, of level 2
read -r -a dev <<< "${DEV:-${dev[*]}}"
read -r -a test <<< "${TEST:-${test[*]}}"

# SPLIT COUNT-OF-LEVEL-1 [COUNT-OF-LEVEL-2]: the first tasks of each family. Choices are made on 500 and later. Those of
# practice belong to train.
ids() {
    local split=$1 level=0 count number family
    shift
    for count in "$@"; do
        level=$((level + 1))
        "$bench" tasks saasworld --split "$split" --tag "level-$level" --ids | cut -d. -f1,2 | sort -u |
            sed -n "1,${families}p" > "$out/families.txt"
        for ((number = 0; number < count; number++)); do
            while read -r family; do echo "$family.${split/practice/train}.$number"; done < "$out/families.txt"
        done
    done
    rm -f "$out/families.txt"
}

base=${BASE:-smollm2-135m}
loop="$out/loop"
if [ ! -d "$base" ]; then run train base "$base"; fi # at once if it is there
if [ -e "$loop/history.json" ]; then
    : # done
elif [ -e "$loop/loop.json" ]; then # of a demo that was stopped
    run loop --resume "$loop"
else
    ids train "${train[@]}" > "$out/train.txt"
    ids practice "${PRACTICE:-0}" >> "$out/train.txt"
    ids dev "${dev[@]}" > "$out/dev.txt"
    ids test "${test[@]}" > "$out/test.txt"
    # 16-bit numbers only where the CPU multiplies them in hardware: elsewhere they are slow
    precision=fp32
    if grep -qsE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then precision=bf16-mixed; fi
    # The oracle says what it compares, and shows how a failed call is repaired.
    # shellcheck disable=SC2086 # words on purpose
    run loop --recipe "${RECIPE:-smollm2-135m-cpu}" --set "model.base=$base" --set "training.precision=$precision" \
        --teacher oracle --teacher-option explain=true --teacher-option slips=0.2 \
        --train "$out/train.txt" --dev "$out/dev.txt" --test "$out/test.txt" --out "$loop" \
        --jobs 8 --max-tokens 300 ${LOOP_OPTIONS-"--constrain-calls"}
fi
run leakage "$loop/turn-1/train.jsonl" --against test
run loop --show "$loop"
run report --html "$out/report.html" --loop "$loop"
printf '\nThe report: %s\nThe trained model: %s\nThe recordings: %s\n' \
    "$out/report.html" "$loop/turn-1/train/model" "$MCP_BENCH_HOME/runs"
