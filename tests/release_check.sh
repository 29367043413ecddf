#!/usr/bin/env bash
# What takes longer than the checks of every change may: run before a release, with a debug build of the program.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${EVENKEEL:-target/debug/evenkeel}

check() {
    local began=$SECONDS
    "$@"
    printf '== %s s: %s\n' "$((SECONDS - began))" "$*"
}

for story in "" replicated failover cluster rollback upgrade-domains self-healing; do
    # shellcheck disable=SC2086
    check "$program" demo $story --exit
done
check tests/conformance.sh --every-order
check tests/conformance_several.sh --every-order
check "$program" simulate --seed 10001 --seeds 10000
