#!/usr/bin/env bash
# Replays the recorded conversations against a fresh hub, again in reverse order, and once more, shuffled, after a restart.
#
# The cases named in tests/conformance_expected.txt differ on purpose; each must differ, and nothing else may.
# CONFORMANCE_DIR names the folder with conformance.py and cases (default: beside the project).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

conformance=${CONFORMANCE_DIR:-../shared/conformance}
program=${EVENKEEL:-target/debug/evenkeel}
if [ ! -d "$conformance/cases" ]; then
    echo "no recorded conversations in $conformance" >&2
    exit 1
fi

replay() {
    python3 tests/conformance_compare.py "$conformance" "$hub_url/v1" "$scratch/password" \
        tests/conformance_expected.txt "$@"
}

make_scratch
printf 'conformance-%s' "$RANDOM$RANDOM" >"$scratch/password"
start_hub "$program" "$scratch"
echo "-- against a fresh hub"
replay
echo "-- against one that has run for a while, in reverse order"
replay --reversed
stop_hub
start_hub "$program" "$scratch"
seed=${CONFORMANCE_SEED:-$RANDOM}
echo "-- after a restart, shuffled (CONFORMANCE_SEED=$seed)"
replay "--shuffled=$seed"
