#!/usr/bin/env bash
# Opens the API document of a fresh hub in a browser without a screen, and tries an operation from there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
if ((${#missing[@]} > 0)); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

make_scratch
printf 'browser-root-secret' >"$scratch/password"
start_hub "$program" "$scratch"
timeout 180 python3 tests/browser/api_document.py "$hub_url" "$scratch/password" "$scratch/profile"
