#!/usr/bin/env bash
# Makes the pictures of the manual: pages of the console of a demonstration, as docs/images/pictures.json lists them.
# Usage: pictures.sh [DIRECTORY]; the directory is docs/images if it is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
directory=$(realpath "${1:-docs/images}")
make_scratch
: >"$scratch/demo.log"
"$program" demo --data-dir "$scratch/demo" --postgres-binaries found >"$scratch/demo.log" 2>&1 &
processes+=($!)
for _ in $(seq 1800); do
    grep -q 'The hub stays up' "$scratch/demo.log" && break
    if ! kill -0 "${processes[-1]}" 2>/dev/null; then
        cat "$scratch/demo.log" >&2
        exit 1
    fi
    sleep 0.1
done
timeout 300 python3 tests/browser/pictures.py "$(cat "$scratch/demo/hub/url")" "$scratch/demo/hub/root-password" \
    "$scratch/profile-pictures" "$directory"
