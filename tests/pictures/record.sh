#!/usr/bin/env bash
# Records the data of the pictures in the documents: the steps of a pod in a server's log, a terminal session, and metrics
# while pods come and go. Needs crictl and a release build.
#
# usage: world.sh -- record.sh path-of-dockbridge [pod|session|metrics …]     (`make record`)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dockbridge=$(realpath "${1:?the path of dockbridge is missing}")
shift
socket=/run/dockbridge/dockbridge.sock
export CONTAINER_RUNTIME_ENDPOINT=unix://$socket
server=

main() {
    command -v crictl >/dev/null || { echo "record: crictl is missing" >&2; exit 1; }
    mkdir -p "$DOCKBRIDGE_WORLD/tmp/record"
    cd "$DOCKBRIDGE_WORLD/tmp/record"
    # Without this file crictl prints a warning at each call.
    echo "runtime-endpoint: $CONTAINER_RUNTIME_ENDPOINT" >crictl.yaml
    export CRI_CONFIG_FILE=$PWD/crictl.yaml
    trap 'kill $server 2>/dev/null || true' EXIT
    for what in "${@:-pod session metrics}"; do
        # shellcheck disable=SC2086  # the default is several words
        for one in $what; do
            serve
            "$one" >"$one.txt"
            kill "$server" && wait "$server" || true
            { head_of "$one"; cat "$one.txt"; } >"$here/data/$one.txt"
        done
    done
}

head_of() {
    echo "# recorded by make record, $1"
    echo "# date $(date -u +%F)"
    echo "# machine $(nproc) shared cores, $(. /etc/os-release && echo "$PRETTY_NAME" | sed 's/ (.*//; s/GNU.Linux //')"
    echo "# engine Docker $(docker version --format '{{.Server.Version}}' | sed 's/+.*//')"
}

serve() {
    rm -rf logs && mkdir -p logs
    "$dockbridge" serve --log-level debug --listen "unix://$socket" --docker "unix://$DOCKBRIDGE_WORLD_DOCKER" \
        --state-dir "$PWD/state" --run-dir /run/dockbridge --metrics-addr 127.0.0.1:9105 \
        --cni-conf-dir "$DOCKBRIDGE_WORLD_CNI_CONF" --cni-bin-dir "$DOCKBRIDGE_WORLD_CNI_BIN" \
        --cni-cache-dir "$DOCKBRIDGE_WORLD_CNI_CACHE" >serve.log 2>&1 &
    server=$!
    until crictl version >/dev/null 2>&1; do sleep 0.1; done
}

# Writes the two files of a pod: describe NAME [HOST_PORT [IMAGE]]
describe() {
    local ports= image=${3:-$DOCKBRIDGE_WORLD_IMAGE}
    [ -z "${2:-}" ] || ports="\"port_mappings\": [{\"container_port\": 80, \"host_port\": $2}],"
    cat >pod.json <<JSON
{"metadata": {"name": "$1", "namespace": "default", "uid": "$1", "attempt": 0}, "log_directory": "$PWD/logs", $ports
 "linux": {"cgroup_parent": "$DOCKBRIDGE_WORLD_CGROUP"}}
JSON
    cat >httpd.json <<JSON
{"metadata": {"name": "httpd"}, "image": {"image": "$image"}, "log_path": "$1.log", "linux": {},
 "command": ["httpd", "-f", "-v", "-h", "/www"]}
JSON
}

# ---------------------------------------------------------------------------------- a pod's life in the log

# Runs fifteen pods and prints the one with the median time: each call, and its Docker calls and plugins, in ms.
pod() {
    local number pod ctr
    for number in $(seq 15); do
        describe "life$number"
        pod=$(crictl runp pod.json 2>/dev/null)
        ctr=$(crictl create "$pod" httpd.json pod.json 2>/dev/null)
        { crictl start "$ctr"; sleep 0.5; crictl stop -t 0 "$ctr"; crictl stopp "$pod"; crictl rm "$ctr"; crictl rmp "$pod"; } >/dev/null 2>&1
    done
    for number in $(seq 15); do
        grep -E "about=(default/|k8s_[a-zA-Z]+_)life$number[}/_]" serve.log | steps >"life$number.txt"
        echo "$(awk '$1 == "call" { sum += $3 } END { print sum }' "life$number.txt") life$number.txt"
    done | sort -n | sed -n '8s/.* //p' | xargs cat
}

# Prints the lines of one pod as `call METHOD MS` after `docker VERB MS` and `cni COMMAND MS`. `beside` marks what runs at the
# same time as the line before: the plugins' DEL, which begins with the kill of the pause container.
steps() {
    sed -n -E \
        -e 's/^[^T]*T([0-9:.]+)Z.*engine answered call=([a-z]+) container .* took=(.*)/\1 docker \2 \3/p' \
        -e 's/^[^T]*T([0-9:.]+)Z.* pod connected .* took=(.*)/\1 cni ADD \2/p' \
        -e 's/^[^T]*T([0-9:.]+)Z.* pod disconnected .*/\1 beside DEL 0s/p' \
        -e 's/^[^T]*T([0-9:.]+)Z.*name="([A-Za-z]+)".*: CRI call answered took=(.*)/\1 call \2 \3/p' |
        awk '{ split($1, clock, ":"); at = (clock[1] * 60 + clock[2]) * 60000 + clock[3] * 1000
               ms = $4; if (ms ~ /µs$/) ms = ms / 1000; else if (ms ~ /ms$/) ms = ms + 0; else ms = ms * 1000
               if ($2 == "docker") begun = at - ms
               if ($2 == "beside") ms = at - begun
               printf "%s %s %.1f\n", $2, $3, ms }'
}

# --------------------------------------------------------------------------------------- a terminal session

# Prints lines `SECONDS $ command` and `SECONDS > output`. The pod is that of README.md.
session() {
    local line begun
    docker run --name page --network none "$DOCKBRIDGE_WORLD_IMAGE" sh -c 'echo a pod on docker >/www/index.html' &&
        docker commit page demo/busybox >/dev/null && docker rm page >/dev/null
    describe web 8080 demo/busybox
    begun=$(date +%s.%N)
    while IFS= read -r line; do
        printf '%s $ %s\n' "$(since "$begun")" "$line"
        eval "$line" >answer 2>&1
        sed "s/^/$(since "$begun") > /" answer
    done <<'LINES'
pod=$(crictl runp pod.json)
httpd=$(crictl create $pod httpd.json pod.json)
crictl start $httpd
curl -s http://127.0.0.1:8080/
crictl exec $httpd hostname
docker ps --format '{{.ID}} {{.Names}}'
crictl logs $httpd
crictl rmp -f $pod
docker ps -aq
LINES
}

since() { awk -v now="$(date +%s.%N)" -v then="$1" 'BEGIN { printf "%.2f", now - then }'; }

# ------------------------------------------------------------------------------- metrics while pods come and go

# Prints a row every two seconds for three minutes, with the values of the dashboard's panels.
metrics() {
    local row begun churn
    begun=$(date +%s.%N)
    churn & churn=$!
    echo "seconds pods containers calls call_seconds engine_calls engine_seconds cpu_seconds resident_bytes log_bytes"
    for row in $(seq 90); do
        curl -s http://127.0.0.1:9105/metrics | awk -v at="$(since "$begun")" '
            /^dockbridge_pods\{state="ready"\}/ { pods = $2 }
            /^dockbridge_containers\{state="running"\}/ { containers = $2 }
            /^dockbridge_cri_request_duration_seconds_count/ { calls += $2 }
            /^dockbridge_cri_request_duration_seconds_sum/ { spent += $2 }
            /^dockbridge_engine_request_duration_seconds_count/ { engine += $2 }
            /^dockbridge_engine_request_duration_seconds_sum/ { engine_spent += $2 }
            /^process_cpu_seconds_total/ { cpu = $2 }
            /^process_resident_memory_bytes/ { resident = $2 }
            /^dockbridge_log_converted_bytes_total/ { bytes = $2 }
            END { print at, pods + 0, containers + 0, calls, spent, engine, engine_spent, cpu, resident, bytes + 0 }'
        sleep 2
    done
    kill "$churn" 2>/dev/null || true
    crictl rmp -fa >/dev/null 2>&1
}

# Starts twelve pods in a minute, which write to their logs. Later removes them one by one.
churn() {
    local number pod ctr
    sleep 10
    for number in $(seq 12); do
        describe "churn$number"
        sed -i 's|"command".*|"command": ["sh", "-c", "while :; do seq 500; usleep 200000; done"]}|' httpd.json
        pod=$(crictl runp pod.json 2>/dev/null)
        ctr=$(crictl create "$pod" httpd.json pod.json 2>/dev/null)
        crictl start "$ctr" >/dev/null 2>&1
        sleep 4
    done
    sleep 30
    for pod in $(crictl pods -q 2>/dev/null); do
        crictl rmp -f "$pod" >/dev/null 2>&1
        sleep 4
    done
}

main "$@"
