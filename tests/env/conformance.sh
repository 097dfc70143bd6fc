#!/usr/bin/env bash
# Runs critest, the stories and Kubernetes' node e2e on several engines, and writes one page with the results. A suite that is
# not run is in the page with the reason. Results of earlier runs stay, and are in the page if they are of the same commit.
#
# usage: conformance.sh OUT PROGRAM STORIES WRITER     (as root; `make conformance`)
#   OUT       folder for conformance.html, conformance.md, and a folder with facts and logs of each run
#   PROGRAM   dockbridge, built for release
#   STORIES   the test program of the stories
#   WRITER    the program that writes the page
# Variables:
#   ENGINES   the engines to run, as world.sh names them (default: those of Debian)
#   SUITES    the suites to run: critest critest-runtime stories stories-runtime e2e (default: all)
#   CRITEST   the program critest of cri-tools
#   E2E       a folder with Kubernetes' programs kubelet, e2e_node.test and ginkgo
#   IMAGES    the storage folder of a registry with the images of critest and node e2e, without the registry in their names. It
#             answers as registry.k8s.io and gcr.io, because a world has no network.
#   VM=1      runs also in the virtual machine, which has cgroup v2 (vm.sh)
#   JOBS, STORY, VM_STORIES   as in the Makefile
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
known_engines='bookworm trixie sid sid-containerd'
all_suites='critest critest-runtime stories stories-runtime e2e'
# What the result depends on. Other changes, such as those of the documents, keep the results.
tested=(src proto build.rs Cargo.lock tests/stories)

main() {
    [ $# = 4 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
    out=$1 program=$2 stories=$3 writer=$4 worst=0
    : "${ENGINES:=$known_engines}"
    local engine cgroup suite
    [ "$(id -u)" = 0 ] || die "must be root: worlds are made"
    cd "$here/../.."
    mkdir -p "$out/runs"
    commit=$(git log -1 --format=%h --abbrev=12 -- "${tested[@]}")
    [ -z "$(git status --porcelain -- "${tested[@]}")" ] || commit+=-modified
    own_cgroup=$([ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] && echo v2 || echo v1)
    trap '"$writer" "$out/runs" "$out" "$commit"; echo "$out/conformance.html" >&2' EXIT
    for cgroup in v1 v2; do
        for engine in $(printf '%s\n' $known_engines $ENGINES | awk '!seen[$0]++'); do
            for suite in $all_suites; do consider "$engine" "$cgroup" "$suite"; done
        done
    done
    exit "$worst"
}

# consider ENGINE CGROUP SUITE: runs it, or records why not.
consider() {
    local folder missing
    folder=$out/runs/$(printf %s "$1,$2,$3" | tr -c 'A-Za-z0-9.,' -)
    missing=$(missing "$@")
    if [ -z "$missing" ]; then
        rm -rf "$folder" && mkdir -p "$folder"
        run "$folder" "$@" || worst=1
    elif ! grep -qs '^code=' "$folder/facts"; then
        mkdir -p "$folder"
        { identity "$@"; echo "missing=$missing"; } >"$folder/facts"
    fi
}

# A folder is named without its path.
identity() { printf 'engine=%s\ncgroup=%s\nsuite=%s\n' "${1##*/}" "$2" "$3"; }

# missing ENGINE CGROUP SUITE: prints the reason not to run it, if there is one. What the machine lacks comes first.
missing() {
    local engine=$1 cgroup=$2 suite=$3
    case $engine,$suite in bookworm,*-runtime | bookworm,e2e) echo "needs Docker 24"; return ;; esac
    if [ "$cgroup" != "$own_cgroup" ]; then
        if [ "$cgroup" = v1 ]; then
            echo "no cgroup v1 here"
            return
        elif [ -z "${VM:-}" ]; then
            echo "no cgroup v2 here, and VM is not set"
            return
        elif [ "$suite" = e2e ]; then
            echo "too slow for the virtual machine"
            return
        fi
    fi
    case " ${SUITES:-$all_suites} " in *" $suite "*) ;; *) echo "not selected"; return ;; esac
    case " $ENGINES " in *" $engine "*) ;; *) echo "not selected"; return ;; esac
    case $suite in
        critest*) [ -x "${CRITEST:-}" ] || { echo "no program in CRITEST"; return; } ;;
        e2e) [ -x "${E2E:-}/e2e_node.test" ] || { echo "no programs in E2E"; return; } ;;
    esac
    case $suite in critest* | e2e) [ -d "${IMAGES:-}" ] || echo "no registry in IMAGES" ;; esac
}

# run FOLDER ENGINE CGROUP SUITE
run() {
    local folder=$1 engine=$2 cgroup=$3 suite=$4 begun=$SECONDS code=0 runtime=()
    printf 'conformance: %s on %s, cgroup %s\n' "$suite" "$engine" "$cgroup" >&2
    {
        identity "$engine" "$cgroup" "$suite"
        printf 'commit=%s\nbegun=%s\nprogram=%s\n' "$commit" "$(date -u '+%F %H:%M')" "$(version "$suite")"
    } >"$folder/facts"
    case $suite in
        stories-runtime) runtime=(--runtime "${stories%/deps/*}/dockbridge") ;;
        critest-runtime | e2e) runtime=(--runtime "$program") ;;
    esac
    if [ "$cgroup" != "$own_cgroup" ]; then
        in_machine "$folder" "$engine" "$suite" "${runtime[@]}" || code=$?
    elif [ "${suite%-runtime}" = stories ]; then
        # Versions of the engine come from a world, and the stories start worlds of their own.
        DOCKBRIDGE_WORLD_LOGS=$folder "$here/world.sh" --engine "$engine" -- "$here/conformance.sh" --inside facts &&
            DOCKBRIDGE_SKIPS=$folder/skips "$stories" --engine "$engine" "${runtime[@]}" --jobs "$JOBS" ${STORY:-} >"$folder/log" || code=$?
    else
        DOCKBRIDGE_WORLD_LOGS=$folder "$here/world.sh" --engine "$engine" "${runtime[@]}" -- \
            "$here/conformance.sh" --inside "$suite" "$program" "${CRITEST:-}" "${E2E:-}" "${IMAGES:-}" >"$folder/log" || code=$?
    fi
    cat "$folder/world-facts" >>"$folder/facts" 2>/dev/null || true
    printf 'seconds=%s\ncode=%s\n' $((SECONDS - begun)) "$code" >>"$folder/facts"
    [ "$code" = 0 ]
}

# in_machine FOLDER ENGINE SUITE [--runtime PROGRAM]: in the virtual machine. Its logs come out at the end.
in_machine() {
    local folder=$1 engine=$2 suite=$3 code=0 file flags=("${@:4}") carried=("$program")
    case $suite in
        stories*) carried+=("$stories" "${stories%/deps/*}/dockbridge") ;;
        critest*) carried+=("$CRITEST" "$IMAGES") ;;
    esac
    for file in "${carried[@]}"; do flags+=(--carry "$file"); done
    export DOCKBRIDGE_VM=${DOCKBRIDGE_VM:-$out/../vm}
    "$here/vm.sh" --engine "$engine" --driver cgroupfs "${flags[@]}" -- \
        "$here/conformance.sh" --inside "$suite" "$program" "${CRITEST:-}" "" "${IMAGES:-}" "$stories" "${STORY:-$VM_STORIES}" >"$folder/log" || code=$?
    cp "$DOCKBRIDGE_VM"/last/logs/* "$folder/" 2>/dev/null || true
    return "$code"
}

# version SUITE: prints the version of its program.
version() {
    case $1 in
        critest*) "$CRITEST" -version | sed -n 's/^critest version: /critest /p' ;;
        e2e) "$E2E/kubelet" --version ;;
        *) echo "stories ${STORY:+with $STORY in their names}" ;;
    esac
}

# ------------------------------------------------------------------------------------------------ in a world

# inside SUITE [PROGRAM CRITEST E2E IMAGES [STORIES WORDS]]
inside() {
    local suite=$1 program=${2:-} critest=${3:-} e2e=${4:-} images=${5:-} flags=()
    world=$DOCKBRIDGE_WORLD
    printf 'name=%s\ndocker=%s\nstore=%s\nkernel=%s\n' "$DOCKBRIDGE_WORLD_ENGINE" "$DOCKBRIDGE_WORLD_VERSION" \
        "$DOCKBRIDGE_WORLD_STORE" "$(uname -r)" >"$world/log/world-facts"
    case $suite in
        facts) exit ;;
        stories*) exec "$6" ${7:-} ;;
        critest-runtime)
            flags=(--nri on --nri-socket "$world/nri.sock" --nri-plugin-dir "$world/nri/plugins" --nri-config-dir "$world/nri/config")
            ;;
    esac
    serve_images "$images"
    serve "$program" "${flags[@]}"
    case $suite in
        critest*) run_critest "$critest" ;;
        e2e) run_e2e "$e2e" ;;
    esac
}

# The folder is a registry under the names of those that the suites use. Its images are pulled by plain HTTP.
serve_images() {
    local host registry
    registry=$(readlink "/proc/$(cat "$world/pids/registry-5000")/exe")
    printf '127.0.0.1 localhost registry.k8s.io gcr.io k8s.gcr.io\n198.51.100.2 n1 %s\n' "$(hostname)" >"$world/run/hosts"
    mount --bind "$world/run/hosts" /etc/hosts
    mkdir -p /etc/docker/certs.d && mount -t tmpfs tmpfs /etc/docker/certs.d
    for host in registry.k8s.io gcr.io k8s.gcr.io; do
        mkdir "/etc/docker/certs.d/$host"
        printf '[host."http://%s"]\n  capabilities = ["pull", "resolve"]\n' "$host" >"/etc/docker/certs.d/$host/hosts.toml"
    done
    printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:80"}\n' "$1" >"$world/run/images.yml"
    setsid "$registry" serve "$world/run/images.yml" </dev/null >"$world/log/images.log" 2>&1 &
    await curl -so /dev/null http://127.0.0.1/v2/
    # An address and a default route for the node. Nothing answers there.
    ip link add judge0 type veth peer name judge1
    ip address add 198.51.100.2/24 dev judge0
    ip link set judge0 up
    ip link set judge1 up
    ip route add default via 198.51.100.1
}

# serve PROGRAM [flag…]: starts dockbridge.
serve() {
    local program=$1
    shift
    "$program" serve --listen "unix://$world/cri.sock" --docker "unix://$DOCKBRIDGE_WORLD_DOCKER" --state-dir "$world/bridge/state" \
        --run-dir "$world/bridge/run" --cni-conf-dir "$DOCKBRIDGE_WORLD_CNI_CONF" --cni-bin-dir "$DOCKBRIDGE_WORLD_CNI_BIN" \
        --cni-cache-dir "$DOCKBRIDGE_WORLD_CNI_CACHE" "$@" </dev/null >"$world/log/dockbridge.log" 2>&1 &
    await test -S "$world/cri.sock"
}

run_critest() {
    # As on a host with systemd. The suite mounts in /tmp and expects that containers see it, and the other way round.
    mount --make-rshared /
    local flags=(-runtime-endpoint "unix://$world/cri.sock" -image-endpoint "unix://$world/cri.sock")
    [ ! -S "$world/nri.sock" ] || flags+=(-nri-socket "$world/nri.sock")
    timeout 7200 "$1" "${flags[@]}" -ginkgo.no-color -ginkgo.v -ginkgo.json-report "$world/log/report.json"
}

# The specs that Kubernetes runs on each node, without those that need a machine for themselves.
run_e2e() {
    local folder gates='PodAndContainerStatsFromCRI: true'
    # Kubelets before 1.36 do not start with a gate that they do not know.
    if grep -qa CRIListStreaming "$1/kubelet"; then gates+=', CRIListStreaming: true'; fi
    # Kubelets of several worlds would remove each other's pods.
    for folder in /var/lib/kubelet /var/log/pods /var/log/containers; do
        mkdir -p "$folder" "$world/kubelet$folder"
        mount --bind "$world/kubelet$folder" "$folder"
        mount --make-rshared "$folder"
    done
    # The suite starts kubelet with systemd if it finds systemd-run, but no systemd can be reached from a world.
    folder=$(type -P systemd-run) && mount --bind /dev/null "$folder"
    cat >"$world/run/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 10Mi}
featureGates: {$gates}
YAML
    cd "$world/log"
    timeout 7200 "$1/ginkgo" --procs=8 --no-color --json-report=report.json --output-dir="$world/log" --focus='\[NodeConformance\]' \
        --skip='\[Serial\]|\[Disruptive\]|\[Flaky\]|\[Slow\]' "$1/e2e_node.test" -- --k8s-bin-dir "$1" \
        --kubelet-config-file "$world/run/kubelet.yaml" --container-runtime-endpoint "unix://$world/cri.sock" --node-name n1 \
        --prepull-images=false --report-dir "$world/log"
}

# await command…: until it succeeds.
await() {
    local i
    for i in $(seq $((300 * ${DOCKBRIDGE_WORLD_PATIENCE:-1}))); do
        if "$@"; then return; fi
        sleep 0.1
    done
    die "failed for 30 s: $*"
}

# ------------------------------------------------------------------------------------------------------

die() {
    printf 'conformance: %s\n' "$*" >&2
    exit 1
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    main "$@"
fi
