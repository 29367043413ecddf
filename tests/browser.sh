#!/usr/bin/env bash
# Opens the API document of a fresh hub in a browser without a screen, and tries an operation from there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
for needed in chromium chromedriver; do
    if ! command -v "$needed" >/dev/null; then
        echo "$needed is not installed: install it (Debian: chromium and chromium-driver), or leave this test to .ci/run" >&2
        exit 1
    fi
done

make_scratch
printf 'browser-root-secret' >"$scratch/password"
start_hub "$program" "$scratch"
timeout 180 python3 tests/browser/api_document.py "$hub_url" "$scratch/password" "$scratch/profile"
