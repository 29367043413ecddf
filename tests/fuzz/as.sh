#!/usr/bin/env bash
# Calls every operation as one account: as.sh PROGRAM VENV SCRATCH EXAMPLES ACCOUNT SEED
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=tests/servers.sh
. ../servers.sh

program=$1
venv=$2
directory=$3/$5
examples=$4
account=$5
seed=$6
# Longest time for one account.
limit=${FUZZ_LIMIT:-700}

mkdir -m 711 "$directory"

fail() {
    echo "as $account: $1" >&2
    # Made-up input may be long.
    cut -c1-400 "${@:2}" >&2
    exit 1
}

printf 'fuzz-root-secret' >"$directory/password"
start_hub "$program" "$directory"
url=$hub_url
"$venv/bin/python" fixture.py "$url" "$directory/password" "$directory/fixture.json"
credentials=$("$venv/bin/python" login.py "$directory/fixture.json" "$account")

export FUZZ_FIXTURE=$directory/fixture.json FUZZ_COUNTS=$directory/counts.json SCHEMATHESIS_HOOKS=hooks PYTHONPATH=$PWD
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
# Streams have no end, an exchange that is emptied has nothing left to read, and the document takes no input.
# Ids of responses (`org/policy`) that the fuzzer tries in paths are discarded for their slash, which it takes for its own failure.
if ! (cd "$directory" && timeout "$limit" "$venv/bin/schemathesis" run "$url/v1/api-docs/swagger.json" --url "$url" \
    --auth "$credentials" --seed "$seed" --max-examples "$examples" --phases examples,coverage,fuzzing \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,wrong_shape_is_refused \
    --exclude-path-regex '/(changes|events)/stream$|/admin/dropdb$|/api-docs/' --generation-database none --continue-on-failure \
    --suppress-health-check filter_too_much \
    --request-timeout 30 --warnings off --no-color) >"$directory/out" 2>&1; then
    fail "seed $seed finds:" "$directory/out" "$directory/log"
fi
if grep -q '^Traceback' "$directory/out"; then
    fail 'the fuzzer itself failed:' "$directory/out"
fi
"$venv/bin/python" login.py --check "$url" "$directory/fixture.json" "$account"
