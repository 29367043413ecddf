# shellcheck shell=bash
# Many variables are read by the scripts.
# shellcheck disable=SC2034
# Sourced by the scripts of this folder: a scratch folder, a PostgreSQL of its own, hubs. All of them go when the script ends.

# The directory of the script; made by make_scratch.
scratch=
# Further processes of the script that shall end with it.
processes=()
hub=
server_folder=
as_server=()

# Makes a folder that the server's account may pass.
make_scratch() {
    scratch=$(mktemp -d)
    chmod 711 "$scratch"
}

# Starts PostgreSQL in a fresh folder: start_postgres FOLDER [name=value]…. $programs is where its programs are, $server its URL.
start_postgres() {
    local folder=$1 options port setting
    server_folder=$folder
    programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    [ -d "$programs" ] || programs=$(dirname "$(command -v initdb)")
    # The server refuses root.
    if [ "$(id -u)" = 0 ]; then
        install -d -o nobody "$folder"
        as_server=(runuser -u nobody --)
    else
        mkdir "$folder"
    fi
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder"
    for setting in "${@:2}"; do
        options+=" -c $setting"
    done
    (
        cd /
        "${as_server[@]}" "$programs/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
        "${as_server[@]}" "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w -o "$options" start >/dev/null
    )
    server=postgres://postgres@127.0.0.1:$port
}

stop_postgres() {
    if [ -n "$server_folder" ]; then
        (cd / && "${as_server[@]}" "$programs/pg_ctl" -D "$server_folder/data" -m immediate -w stop >/dev/null 2>&1) || true
        server_folder=
    fi
}

# Starts a hub and waits until it is ready: start_hub PROGRAM FOLDER. FOLDER/password is the password of root, FOLDER/hub the data,
# FOLDER/log what it logs. $hub_url is where it answers.
start_hub() {
    local program=$1 folder=$2
    rm -f "$folder/hub/url"
    "$program" up --data-dir "$folder/hub" --listen 127.0.0.1:0 --root-password-file "$folder/password" \
        --log warn 2>>"$folder/log" &
    hub=$!
    for _ in $(seq 600); do
        if [ -s "$folder/hub/url" ] && curl -fsS -o "$folder/ready" "$(cat "$folder/hub/url")/readyz" 2>/dev/null; then
            hub_url=$(cat "$folder/hub/url")
            return
        fi
        kill -0 "$hub" 2>/dev/null || break
        sleep 0.1
    done
    cat "$folder/log" >&2
    echo "the hub in $folder does not become ready" >&2
    exit 1
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
