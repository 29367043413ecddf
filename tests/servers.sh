# shellcheck shell=bash
# Many variables are read by the scripts.
# shellcheck disable=SC2034
# Sourced by the scripts of this directory: a scratch directory, a PostgreSQL of its own, hubs. All of them go when the script ends.

# The directory of the script; made by make_scratch.
scratch=
# Further processes of the script that shall end with it.
processes=()
hub=
server_directory=
as_server=()

# Makes a directory that the server's account may pass.
make_scratch() {
    scratch=$(mktemp -d)
    chmod 711 "$scratch"
}

# Starts PostgreSQL in a fresh directory: start_postgres DIRECTORY [name=value]…. $programs is where its programs are, $server its URL.
start_postgres() {
    local directory=$1 options port setting
    server_directory=$directory
    programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    [ -d "$programs" ] || programs=$(dirname "$(command -v initdb)")
    # The server refuses root.
    if [ "$(id -u)" = 0 ]; then
        install -d -o nobody "$directory"
        as_server=(runuser -u nobody --)
    else
        mkdir "$directory"
    fi
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$directory"
    for setting in "${@:2}"; do
        options+=" -c $setting"
    done
    (
        cd /
        "${as_server[@]}" "$programs/initdb" -D "$directory/data" -U postgres -A trust >/dev/null
        "${as_server[@]}" "$programs/pg_ctl" -D "$directory/data" -l "$directory/log" -w -o "$options" start >/dev/null
    )
    server=postgres://postgres@127.0.0.1:$port
}

stop_postgres() {
    if [ -n "$server_directory" ]; then
        (cd / && "${as_server[@]}" "$programs/pg_ctl" -D "$server_directory/data" -m immediate -w stop >/dev/null 2>&1) || true
        server_directory=
    fi
}

# Starts a hub and waits until it is ready: start_hub PROGRAM DIRECTORY. DIRECTORY/password is the password of root, DIRECTORY/hub the data,
# DIRECTORY/log its log. $hub_url is its address.
start_hub() {
    local program=$1 directory=$2
    rm -f "$directory/hub/url"
    "$program" up --data-dir "$directory/hub" --listen 127.0.0.1:0 --root-password-file "$directory/password" \
        --log warn 2>>"$directory/log" &
    hub=$!
    for _ in $(seq 600); do
        if [ -s "$directory/hub/url" ] && curl -fsS -o "$directory/ready" "$(cat "$directory/hub/url")/readyz" 2>/dev/null; then
            hub_url=$(cat "$directory/hub/url")
            return
        fi
        kill -0 "$hub" 2>/dev/null || break
        sleep 0.1
    done
    cat "$directory/log" >&2
    echo "the hub in $directory does not become ready" >&2
    exit 1
}

# Fetches the rules of accessibility from the registry of npm, where it can be reached: $rules names their script.
fetch_rules() {
    rules=()
    if command -v npm >/dev/null && (cd "$scratch" && timeout 60 npm pack --silent axe-core@4.14.1 >/dev/null 2>&1); then
        tar -xzf "$scratch"/axe-core-*.tgz -C "$scratch" package/axe.min.js
        rules=("$scratch/package/axe.min.js")
    else
        echo "axe-core is not at hand: the pages are checked without it" >&2
    fi
}

stop_hub() {
    if [ -n "$hub" ]; then
        kill "$hub" 2>/dev/null || true
        wait "$hub" || true
        hub=
    fi
}

end_servers() {
    local process
    stop_hub
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    stop_postgres
    if [ -n "$scratch" ]; then
        rm -rf "$scratch"
    fi
}
trap end_servers EXIT
