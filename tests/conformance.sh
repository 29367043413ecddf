#!/usr/bin/env bash
# Replays the recorded conversations against a fresh hub, again in reverse order, and once more, shuffled, after a restart.
#
# The cases named in tests/conformance_expected.txt differ on purpose; each must differ, and nothing else may.
# CONFORMANCE_DIR names the folder with conformance.py and cases (default: beside the project).
set -euo pipefail
cd "$(dirname "$0")/.."

conformance=${CONFORMANCE_DIR:-../shared/conformance}
program=${EVENKEEL:-target/debug/evenkeel}
if [ ! -d "$conformance/cases" ]; then
    echo "no recorded conversations in $conformance" >&2
    exit 1
fi

scratch=$(mktemp -d)
chmod 711 "$scratch"
hub=
stop_hub() {
    if [ -n "$hub" ]; then
        kill "$hub" 2>/dev/null || true
        wait "$hub" || true
        hub=
    fi
}
trap 'stop_hub; rm -rf "$scratch"' EXIT

start_hub() {
    rm -f "$scratch/hub/url"
    "$program" up --data-dir "$scratch/hub" --listen 127.0.0.1:0 --root-password-file "$scratch/password" \
        --log warn 2>>"$scratch/log" &
    hub=$!
    for _ in $(seq 600); do
        if [ -s "$scratch/hub/url" ] && curl -fsS -o "$scratch/ready" "$(cat "$scratch/hub/url")/readyz" 2>/dev/null; then
            return
        fi
        kill -0 "$hub" 2>/dev/null || break
        sleep 0.1
    done
    cat "$scratch/log" >&2
    echo "the hub does not become ready" >&2
    exit 1
}

replay() {
    python3 tests/conformance_compare.py "$conformance" "$(cat "$scratch/hub/url")/v1" "$scratch/password" \
        tests/conformance_expected.txt "$@"
}

printf 'conformance-%s' "$RANDOM$RANDOM" >"$scratch/password"
start_hub
echo "-- against a fresh hub"
replay
echo "-- against one that has run for a while, in reverse order"
replay --reversed
stop_hub
start_hub
seed=${CONFORMANCE_SEED:-$RANDOM}
echo "-- after a restart, shuffled (CONFORMANCE_SEED=$seed)"
replay "--shuffled=$seed"
