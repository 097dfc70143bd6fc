#!/usr/bin/env bash
# Serves the CRI on this machine for a first try, starts and removes one pod with times, or starts the pod of README.md on
# that server without crictl.
#
# usage: run.sh serve|demo path-of-dockbridge [dockbridge flag…]      (as root; `make run`, `make demo`)
#        run.sh first-pod path-of-client                              (as root; `make first-pod`)
#
# Missing programs are installed from the machine's own package sources. An engine that answers is used unchanged. If none
# answers, one is started with separate data, socket and pid file. It keeps running, so that pods outlive this script, and
# the command to stop it is printed. Nothing is written below /etc.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${DOCKBRIDGE_TRY:-/run/dockbridge}
socket=$folder/dockbridge.sock
engine_data=/var/lib/dockbridge-engine

main() {
    local verb=${1:-} dockbridge
    case $verb in serve | demo | first-pod) ;; *) die "usage: run.sh serve|demo path-of-dockbridge, run.sh first-pod path-of-client" ;; esac
    dockbridge=$(realpath "${2:?the path of the program is missing}")
    shift 2
    [ "$(id -u)" = 0 ] || die "must be root: an engine and network namespaces are used"
    if [ "$verb" = first-pod ]; then first_pod "$dockbridge"; return; fi
    mkdir -p "$folder"
    install_missing
    find_engine
    find_cni
    "$verb" "$dockbridge" --docker "unix://$engine" "${cni[@]}" "$@"
}

# ------------------------------------------------------------------------------------------- what is needed

install_missing() {
    local missing=()
    command -v curl >/dev/null || missing+=(curl)
    command -v ip >/dev/null || missing+=(iproute2)
    command -v iptables >/dev/null || missing+=(iptables)
    [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || missing+=(containernetworking-plugins)
    if ! command -v dockerd >/dev/null && ! find_answering; then missing+=(docker.io); fi
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "missing, and this is not Debian: ${missing[*]}"
    say "installing ${missing[*]}"
    "$here/install.sh" "${missing[@]}" >"$folder/apt.log" 2>&1 || { tail -n 20 "$folder/apt.log" >&2; die "apt-get failed, see $folder/apt.log"; }
    # The guides use the docker command, which docker.io of Debian 13 does not contain.
    command -v docker >/dev/null || "$here/install.sh" docker-cli >>"$folder/apt.log" 2>&1 || true
}

# Sets `engine` to the socket of an engine. Starts an engine if none answers.
find_engine() {
    if find_answering; then
        say "using the engine at $engine"
        [ "$engine" != "$folder/docker.sock" ] || say "an earlier run started it; $(stop_advice)"
        return
    fi
    engine=$folder/docker.sock
    start_engine
}

# Sets `engine` to the first socket on which an engine answers.
find_answering() {
    local candidate
    case ${DOCKER_HOST:-} in unix://*) candidate=${DOCKER_HOST#unix://} ;; *) candidate= ;; esac
    for candidate in "$candidate" /var/run/docker.sock "$folder/docker.sock"; do
        if [ -n "$candidate" ] && answers "$candidate"; then
            engine=$candidate
            return 0
        fi
    done
    return 1
}

answers() {
    [ -S "$1" ] && command -v curl >/dev/null && curl -sf -o /dev/null -m 5 --unix-socket "$1" http://engine/_ping
}

# Uses separate files, so that the data and settings of an engine that the user has stopped are not touched.
start_engine() {
    local log=$folder/dockerd.log child
    mkdir -p "$engine_data" "$folder/engine"
    echo '{}' >"$folder/daemon.json"
    rm -f "$folder/dockerd.pid"
    setsid dockerd --config-file "$folder/daemon.json" --data-root "$engine_data" --exec-root "$folder/engine" \
        -H "unix://$engine" -p "$folder/dockerd.pid" </dev/null >"$log" 2>&1 &
    child=$!
    for _ in $(seq 600); do
        if answers "$engine"; then
            say "no engine answered: started $(dockerd --version | cut -d, -f1) at $engine, data in $engine_data"
            say "it keeps running; $(stop_advice)"
            return
        fi
        kill -0 "$child" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    die "the engine did not start, see $log"
}

stop_advice() { echo "to stop it, as root: kill \$(cat $folder/dockerd.pid)"; }

# Sets `cni` to flags for a separate network, unless the machine has a CNI configuration.
find_cni() {
    local conf=$folder/cni/net.d
    cni=()
    if compgen -G '/etc/cni/net.d/*.conf*' >/dev/null || compgen -G '/etc/cni/net.d/*.json' >/dev/null; then
        say "using the network of /etc/cni/net.d"
        return
    fi
    mkdir -p "$conf"
    [ -e "$conf/10-dockbridge.conflist" ] || network "$(free_subnet)" >"$conf/10-dockbridge.conflist"
    cni=(--cni-conf-dir "$conf" --cni-cache-dir "$folder/cni/cache")
    say "no CNI configuration in /etc/cni/net.d: pods get the bridge of $conf"
}

# Prints the address range of an earlier run's bridge, or one that no route of this machine uses.
free_subnet() {
    local routes own third
    routes=$(ip -4 route show)
    own=$(sed -n 's|^\(10\.[0-9]*\.0\.0/16\) dev dockbridge0 .*|\1|p' <<<"$routes")
    if [ -n "$own" ]; then
        echo "$own"
        return
    fi
    for third in 89 90 91 92 93 94; do
        if ! grep -q "^10\.$third\." <<<"$routes"; then
            echo "10.$third.0.0/16"
            return
        fi
    done
    die "10.89.0.0/16 to 10.94.0.0/16 are all in use here: put a CNI configuration into /etc/cni/net.d"
}

network() {
    cat <<JSON
{
  "cniVersion": "1.0.0",
  "name": "dockbridge",
  "plugins": [
    {
      "type": "bridge", "bridge": "dockbridge0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$folder/cni/leases",
        "ranges": [[{"subnet": "$1"}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"}
  ]
}
JSON
}

# ---------------------------------------------------------------------------------------------- what is done

serve() {
    local dockbridge=$1
    shift
    ! serves || die "a server is already at unix://$socket: use that one, or stop it first"
    (invite "$dockbridge" check --listen "unix://$socket" "$@" &)
    exec "$dockbridge" serve --listen "unix://$socket" "$@"
}

# Prints what to try, as soon as the server answers. The arguments are the command that checks this host.
invite() {
    local client=crictl
    for _ in $(seq 300); do
        ! serves || break
        sleep 0.1
    done
    serves || return 0
    sleep 0.5
    command -v crictl >/dev/null || client="crictl (not installed here)"
    cat >&2 <<TEXT

  The CRI is served on unix://$socket. In another terminal, with docker and $client:

    export CONTAINER_RUNTIME_ENDPOINT=unix://$socket DOCKER_HOST=unix://$engine
    crictl info
    crictl pods

  README.md has a whole session. Its pod without crictl, in another terminal:

    make first-pod

  To check this host with the same settings, as root:

    $*

  Ctrl-C ends the server; pods keep running.

TEXT
}

# Starts the pod of README.md and leaves it running. Its image is made from busybox, as in README.md.
first_pod() {
    local client=$1 pod
    serves || die "no server is at unix://$socket: start one in another terminal with make run"
    find_answering || die "no engine answers"
    [ -x /bin/busybox ] || "$here/install.sh" busybox-static >"$folder/apt.log" 2>&1 || die "apt-get failed, see $folder/apt.log"
    # An existing image of this name is not replaced.
    curl -sf -o /dev/null --unix-socket "$engine" http://engine/images/demo/busybox/json || import_image
    read -r pod _ < <("$client" web "$socket") && [ -n "$pod" ] || die "the pod did not start"
    say "the pod web is up, and http://127.0.0.1:8080/ shows:"
    curl -sf --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/ || die "nothing answers on port 8080"
    say "to remove it, as root: $client remove $socket $pod"
}

import_image() {
    local room
    room=$(mktemp -d)
    mkdir -p "$room"/{bin,www}
    cp /bin/busybox "$room/bin/"
    echo 'a pod on docker' >"$room/www/index.html"
    tar -C "$room" -c . | curl -sSf -o /dev/null --unix-socket "$engine" -H 'Content-Type: application/x-tar' --data-binary @- \
        'http://engine/images/create?fromSrc=-&repo=demo/busybox&tag=latest'
    rm -rf "$room"
}

# Runs one pod through the engine's server, whatever its socket is, or through a server that is started for this time. An
# engine has one server: if there is another one, ours exits, and the check uses the other.
demo() {
    local dockbridge=$1 code=0 server log=$folder/demo.log
    shift
    set -- --listen "unix://$socket" "$@"
    if ! serves; then
        "$dockbridge" serve "$@" >"$log" 2>&1 &
        server=$!
        trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
        for _ in $(seq 200); do
            ! serves || break
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
    fi
    "$dockbridge" check --pod "$@" || code=$?
    [ "$code" = 0 ] || [ ! -s "$log" ] || tail -n 30 "$log" >&2
    exit "$code"
}

# Whether a server listens on the socket. Its answer to HTTP/1 does not matter.
serves() {
    local code=0
    [ -S "$socket" ] || return 1
    curl -s -o /dev/null -m 5 --unix-socket "$socket" http://cri/ || code=$?
    [ "$code" != 7 ]
}

# ------------------------------------------------------------------------------------------------------

say() { printf 'run: %s\n' "$*" >&2; }

die() {
    printf 'run: %s\n' "$*" >&2
    exit 1
}

main "$@"
