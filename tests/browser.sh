#!/usr/bin/env bash
# Opens the API document of a fresh hub in a browser without a screen, and tries an operation from there.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${EVENKEEL:-target/debug/evenkeel}")
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
if ((${#missing[@]} > 0)); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

scratch=$(mktemp -d)
chmod 711 "$scratch"
hub=
finish() {
    if [ -n "$hub" ]; then
        kill "$hub" 2>/dev/null || true
        wait "$hub" || true
    fi
    rm -rf "$scratch"
}
trap finish EXIT

printf 'browser-root-secret' >"$scratch/password"
"$program" up --data-dir "$scratch/hub" --listen 127.0.0.1:0 --root-password-file "$scratch/password" --log warn 2>"$scratch/log" &
hub=$!
for _ in $(seq 600); do
    if [ -s "$scratch/hub/url" ] && curl -fsS -o "$scratch/ready" "$(cat "$scratch/hub/url")/readyz" 2>/dev/null; then
        break
    fi
    kill -0 "$hub" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done
timeout 180 python3 tests/browser/api_document.py "$(cat "$scratch/hub/url")" "$scratch/password" "$scratch/profile"
