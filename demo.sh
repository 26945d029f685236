#!/usr/bin/env bash
# The whole chain on saasworld's simple level: a base model made on the spot, the oracle as its teacher over real MCP,
# training, serving, and the trained model back as an agent. `make demo` sets everything up and runs this.
# SEEDS=3 does it three times. The other variables make it shorter, as the tests do.
set -euo pipefail
bench="${VENV:-.venv}/bin/mcp-bench"
out="${DEMO_OUT:-demo-out}"
export MCP_BENCH_HOME="$out/home"
mkdir -p "$out"

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s$ mcp-bench %s%s\n' "$bold" "$*" "$plain"; }
run() { say "$@"; "$bench" "$@"; }

trained=${TRAINED:-contact-details employee-record invoice-due-date order-address product-details task-progress
    ticket-status}
never_trained=${NEVER_TRAINED:-channel-upkeep document-access form-opening invitation-reply sheet-entry}
ids() { # LEVEL SPLIT FIRST COUNT FAMILIES: so many tasks of each family
    local number family
    for ((number = $3; number < $3 + $4; number++)); do
        for family in $5; do echo "simple-$family.$1.$2.$number"; done
    done
}
ids 1 train 0 "${TRAIN:-250}" "$trained" > "$out/train.txt"
# the families were chosen by what such a model can learn; of dev, only tasks that nothing was chosen by
ids 1 dev 400 "${DEV:-16}" "$trained" > "$out/dev.txt"
ids 2 dev 400 "${HARDER:-3}" "$trained" >> "$out/dev.txt" # look-alike records beside the right one
ids 1 test 0 "${TEST:-4}" "$never_trained" > "$out/test.txt"

loops=()
for ((seed = 0; seed < ${SEEDS:-1}; seed++)); do
    loop="$out/loop-$seed"
    loops+=("$loop")
    if [ -e "$loop/history.json" ]; then
        : # done
    elif [ -e "$loop/loop.json" ]; then # of a demo that was stopped
        run loop --resume "$loop"
    else
        # shellcheck disable=SC2086 # words on purpose
        run loop --recipe tiny-cpu --set "training.seed=$seed" --seed "$seed" --teacher oracle --jobs 2 --max-tokens 72 \
            --train "$out/train.txt" --dev "$out/dev.txt" --test "$out/test.txt" --out "$loop" ${LOOP_OPTIONS:-}
    fi
    run leakage "$loop/turn-1/train.jsonl" --against test
done
run loop "${loops[@]/#/--show=}"
run report --html "$out/report.html" --loop "${loops[0]}"
printf '\nThe report: %s\nThe trained model: %s\nThe recordings: %s\n' \
    "$out/report.html" "${loops[0]}/turn-1/train/model" "$MCP_BENCH_HOME/runs"
