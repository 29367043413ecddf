#!/usr/bin/env bash
# Checks that the committed metadata of the checked SQL queries (.sqlx) is what a migrated database says; with --write,
# renews it.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${EVENKEEL:-target/debug/evenkeel}
scratch=$(mktemp -d)
chmod 711 "$scratch"
hub=
stop_hub() {
    if [ -n "$hub" ]; then
        kill "$hub" 2>/dev/null || true
        wait "$hub" || true
    fi
    rm -rf "$scratch"
}
trap stop_hub EXIT

"$program" up --data-dir "$scratch/hub" --listen 127.0.0.1:0 --log error &
hub=$!
for _ in $(seq 600); do
    [ -s "$scratch/hub/url" ] && break
    kill -0 "$hub" || exit 1
    sleep 0.1
done

server=$scratch/hub/postgres
DATABASE_URL="postgres://evenkeel:$(cat "$server/password")@localhost/evenkeel?host=$server/run"
mkdir "$scratch/queries"
# The macros write what they learn into this folder. A changed time stamp makes them run again.
touch src/store/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$scratch/queries" DATABASE_URL="$DATABASE_URL" \
    cargo check --quiet --package evenkeel-store
if [ "${1:-}" = --write ]; then
    mkdir -p .sqlx
    find .sqlx -name 'query-*.json' -delete
    cp "$scratch"/queries/query-*.json .sqlx/
fi
if ! diff --recursive --brief .sqlx "$scratch/queries"; then
    echo "the metadata of the queries is stale: tests/queries.sh --write" >&2
    exit 1
fi
echo "the metadata of $(find .sqlx -name 'query-*.json' | wc -l) queries is up to date"
