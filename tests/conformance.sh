#!/usr/bin/env bash
# Replays the recorded conversations against a fresh hub, and with agbots that an administrator approved; with --every-order also in reverse
# order, and shuffled after a restart.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh
# shellcheck source=tests/conversations.sh
. tests/conversations.sh

program=${EVENKEEL:-target/debug/evenkeel}
make_scratch
printf 'conformance-%s' "$RANDOM$RANDOM" >"$scratch/password"
start_hub "$program" "$scratch"
echo "-- against a fresh hub"
replay "$hub_url" "$scratch/password"
echo "-- with agbots that an administrator approved"
replay_approved "$hub_url" "$scratch/password" "$scratch/approved"
[ "${1:-}" = --every-order ] || exit 0
echo "-- against one that has run for a while, in reverse order"
replay "$hub_url" "$scratch/password" --reversed
stop_hub
start_hub "$program" "$scratch"
seed=${CONFORMANCE_SEED:-$RANDOM}
echo "-- after a restart, shuffled (CONFORMANCE_SEED=$seed)"
replay "$hub_url" "$scratch/password" "--shuffled=$seed"
