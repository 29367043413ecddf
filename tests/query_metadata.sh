#!/usr/bin/env bash
# Compares the metadata of the checked queries (.sqlx) with what a fresh database says; with --write renews it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

make_scratch
start_postgres "$scratch/postgres" fsync=off
export DATABASE_URL="$server/postgres"
for migration in migrations/exchange/*.sql migrations/agbot/*.sql; do
    "$programs/psql" -q -v ON_ERROR_STOP=1 -d "$DATABASE_URL" -f "$migration"
done
mkdir -p "$scratch/sqlx"
touch src/{platform/store,exchange/exchange-store,agbot/agbot-store,tools/import}/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$scratch/sqlx" cargo check --quiet --locked \
    -p evenkeel-store -p evenkeel-exchange-store -p evenkeel-agbot-store -p evenkeel-import
if [ "${1:-}" = --write ]; then
    rm -rf .sqlx
    cp -r "$scratch/sqlx" .sqlx
    chmod -R u+w .sqlx
    echo "renewed $(ls .sqlx | wc -l) queries"
elif diff -rq .sqlx "$scratch/sqlx"; then
    echo "the metadata of $(ls .sqlx | wc -l) queries is current"
else
    echo "the metadata of the queries is stale: run tests/query_metadata.sh --write" >&2
    exit 1
fi
