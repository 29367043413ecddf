#!/usr/bin/env bash
# Replays the recorded conversations against three exchanges on one database, each request sent to another one.
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

programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)")
scratch=$(mktemp -d)
chmod 711 "$scratch"
# The server refuses root.
as_server=()
if [ "$(id -u)" = 0 ]; then
    install -d -o nobody "$scratch/postgres"
    as_server=(runuser -u nobody --)
else
    mkdir "$scratch/postgres"
fi
processes=()
stop() {
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    (cd / && "${as_server[@]}" "$programs/pg_ctl" -D "$scratch/postgres/data" -m immediate -w stop >/dev/null 2>&1) || true
    rm -rf "$scratch"
}
trap stop EXIT

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

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(
    cd /
    "${as_server[@]}" "$programs/initdb" -D "$scratch/postgres/data" -U postgres -A trust >/dev/null
    "${as_server[@]}" "$programs/pg_ctl" -D "$scratch/postgres/data" -l "$scratch/postgres/log" -w \
        -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$scratch/postgres -c fsync=off" start >/dev/null
)
printf 'conformance-%s' "$RANDOM$RANDOM" >"$scratch/password"

url_of() {
    sed -n 's/.*"exchange.url":"\([^"]*\)".*/\1/p' "$scratch/$1.log" | grep .
}

urls=()
for name in first second third; do
    "$program" exchange --database-url "postgres://postgres@127.0.0.1:$port/postgres" --listen 127.0.0.1:0 \
        --root-password-file "$scratch/password" --log info --log-format json 2>"$scratch/$name.log" &
    processes+=($!)
    wait_for url_of "$name" >"$scratch/url"
    urls+=("$(cat "$scratch/url")")
done
python3 tests/round_robin_proxy.py "$scratch/port" "${urls[@]}" 2>"$scratch/proxy.log" &
processes+=($!)
wait_for test -s "$scratch/port"

replay() {
    python3 tests/conformance_compare.py "$conformance" "http://127.0.0.1:$(cat "$scratch/port")/v1" "$scratch/password" \
        tests/conformance_expected.txt "$@"
}

echo "-- against three exchanges, each request sent to the next one"
replay
echo "-- against the same in reverse order"
replay --reversed
