#!/usr/bin/env bash
# Replays the recorded conversations against three exchanges on one database, each request sent to another one; with --every-order also in
# reverse order.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh
# shellcheck source=tests/conversations.sh
. tests/conversations.sh

program=${EVENKEEL:-target/debug/evenkeel}

# Waits until the command succeeds.
wait_for() {
    for _ in $(seq 600); do
        if "$@" 2>/dev/null; then
            return
        fi
        sleep 0.1
    done
    cat "$scratch"/*.log >&2
    echo "this never came true: $*" >&2
    exit 1
}

make_scratch
start_postgres "$scratch/postgres" fsync=off
printf 'conformance-%s' "$RANDOM$RANDOM" >"$scratch/password"

url_of() {
    sed -n 's/.*"exchange.url":"\([^"]*\)".*/\1/p' "$scratch/$1.log" | grep .
}

urls=()
for name in first second third; do
    "$program" exchange --database-url "$server/postgres" --listen 127.0.0.1:0 \
        --root-password-file "$scratch/password" --log info --log-format json 2>"$scratch/$name.log" &
    processes+=($!)
    wait_for url_of "$name" >"$scratch/url"
    urls+=("$(cat "$scratch/url")")
done
python3 tests/round_robin_proxy.py "$scratch/port" "${urls[@]}" 2>"$scratch/proxy.log" &
processes+=($!)
wait_for test -s "$scratch/port"

url=http://127.0.0.1:$(cat "$scratch/port")
echo "-- against three exchanges, each request sent to the next one"
replay "$url" "$scratch/password"
[ "${1:-}" = --every-order ] || exit 0
echo "-- against the same in reverse order"
replay "$url" "$scratch/password" --reversed
