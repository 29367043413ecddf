#!/usr/bin/env bash
# Checks the API document, then calls every operation that it describes with made-up input, as several kinds of account.
#
# No response may be a server error, have a status or a type that the document does not name, or a body that breaks its schema; no body
# that breaks its schema may be accepted, but for what tests/fuzz/tolerance.py names. Each
# account has a hub of its own and a fixed seed: a run makes the same calls as the one before.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
# Examples for each operation, besides those that its schema asks for.
examples=${FUZZ_EXAMPLES:-10}
fewest_calls=20000
accounts=(root user node agbot)

make_scratch

# The fuzzer in an environment of its own, kept for the next run with the same versions.
prepare_fuzzer() {
    local cache version
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel
    version=$(sha256sum tests/fuzz/requirements.txt | cut -c1-16)
    venv=$cache/fuzz-$version
    mkdir -p "$cache"
    exec 7>"$cache/fuzz.lock"
    flock 7
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$cache"/fuzz-[0-9a-f]*
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --no-deps --only-binary :all: -r tests/fuzz/requirements.txt
        touch "$venv/complete"
    fi
    exec 7>&-
}

prepare_fuzzer
"$venv/bin/python" tests/fuzz/check_document.py openapi/exchange.json
"$venv/bin/python" tests/fuzz/tolerance.py

for index in "${!accounts[@]}"; do
    printf '%s %s\n' "${accounts[$index]}" "$((index + 1))"
done | xargs -P 2 -L 1 tests/fuzz/as.sh "$program" "$venv" "$scratch" "$examples"

"$venv/bin/python" tests/fuzz/report.py "$fewest_calls" "$scratch"/*/counts.json
