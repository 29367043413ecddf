#!/usr/bin/env bash
# Opens the pages of a fresh hub in a browser without a screen: start page, manual, console, and API document, from which
# an operation is tried.
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
fetch_rules
printf 'browser-root-secret' >"$scratch/password"
start_hub "$program" "$scratch"
timeout 180 python3 tests/browser/api_document.py "$hub_url" "$scratch/password" "$scratch/profile"
timeout 300 python3 tests/browser/manual.py "$hub_url" "$scratch/profile-manual" "${rules[@]}"
timeout 300 python3 tests/browser/console.py "$hub_url" "$scratch/password" "$scratch/profile-console" "${rules[@]}"
mkdir "$scratch/pictures"
EVENKEEL=$program tests/pictures.sh "$scratch/pictures"
