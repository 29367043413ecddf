#!/usr/bin/env bash
# Compares the metadata of the checked queries (.sqlx) with what a fresh database says; with --write renews it.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)")
folder=$(mktemp -d)
# The server refuses root.
as_server=()
if [ "$(id -u)" = 0 ]; then
    chown nobody "$folder"
    as_server=(runuser -u nobody --)
fi
cleanup() {
    (cd / && "${as_server[@]}" "$programs/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1) || true
    rm -rf "$folder"
}
trap cleanup EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(
    cd /
    "${as_server[@]}" "$programs/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
    "${as_server[@]}" "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w \
        -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder -c fsync=off" start >/dev/null
)
export DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres"
for migration in migrations/*.sql; do
    "$programs/psql" -q -v ON_ERROR_STOP=1 -d "$DATABASE_URL" -f "$migration"
done
mkdir -p "$folder/sqlx"
touch src/store/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$folder/sqlx" cargo check --quiet --locked -p evenkeel-store
if [ "${1:-}" = --write ]; then
    rm -rf .sqlx
    cp -r "$folder/sqlx" .sqlx
    chmod -R u+w .sqlx
    echo "renewed $(ls .sqlx | wc -l) queries"
elif diff -rq .sqlx "$folder/sqlx"; then
    echo "the metadata of $(ls .sqlx | wc -l) queries is current"
else
    echo "the metadata of the queries is stale: run tests/query_metadata.sh --write" >&2
    exit 1
fi
