#!/usr/bin/env bash
# Logs in to the console of a fresh hub with a real identity provider, in a browser without a screen: glewlwyd of the distribution, an OpenID
# Connect provider with pages of its own, on a loopback address.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/servers.sh
. tests/servers.sh

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
for needed in chromium chromedriver glewlwyd openssl; do
    if ! command -v "$needed" >/dev/null; then
        echo "$needed is not installed: install it (Debian: chromium, chromium-driver, glewlwyd with dbconfig-sqlite3, openssl), or leave this test to .ci/run" >&2
        exit 1
    fi
done

make_scratch
fetch_rules
timeout 180 python3 tests/browser/oidc.py "$program" "$scratch" "${rules[@]}"
