#!/usr/bin/env bash
# Runs a command in a private world: network, mount and process namespaces with a Docker Engine, two registries, CNI
# plugins and test images. Nothing outside of one temporary folder is touched, in particular not the user's engine.
# Everything is removed when the command ends in any way.
#
# usage: world.sh [--engine bookworm|trixie|sid|sid-containerd|host|/folder[:containerd|:overlay2]]
#                 [--driver cgroupfs|systemd] [--runtime dockbridge] [--] command [argument…]     (as root)
#
# /folder has the programs of an engine, side by side as in Docker's static archives, or in usr/bin and usr/sbin. The image
# store follows the colon. If the folder has no docker command, that of Debian sid is used.
#
# --runtime registers this program as the engine's runtime "dockbridge", as `dockbridge setup` does.
#
# --driver is the engine's cgroup driver. systemd manages only processes of the machine on which it runs. With systemd the
# whole machine is therefore the world, without namespaces. This is possible only in the guest of vm.sh.
#
# The command finds:
#   DOCKBRIDGE_WORLD                   the world's folder, on a shared mount (rshared binds work below it)
#   DOCKBRIDGE_WORLD_DOCKER            the engine's socket (DOCKER_HOST says the same to the docker command)
#   DOCKBRIDGE_WORLD_ENGINE            the engine's name as given to --engine; for a folder, its version and store
#   DOCKBRIDGE_WORLD_VERSION           the engine's version, such as 28.5.2
#   DOCKBRIDGE_WORLD_STORE             its image store: containerd, or a storage driver such as overlay2
#   DOCKBRIDGE_WORLD_ENGINE_CONTROL    a script: start [flag…], stop, kill, restart [flag…], pid; programs FOLDER: the engine
#                                      has those of another unpacked engine when it starts again, as after an upgrade;
#                                      aside: it starts with new data; back: with its own programs and data again
#   DOCKBRIDGE_WORLD_CGROUP            default cgroup parent of containers, and the place for pods; a slice if the driver
#                                      is systemd
#   DOCKBRIDGE_WORLD_CNI_CONF, _CNI_BIN, _CNI_CACHE, _CNI_LEASES
#                                      bridge cni0 + host-local + portmap + firewall; leases are files named after addresses
#   DOCKBRIDGE_WORLD_IMAGE             a busybox with sh, httpd, nc, wget … (present in the engine)
#   DOCKBRIDGE_WORLD_REGISTRY          open registry on loopback with busybox:1
#   DOCKBRIDGE_WORLD_PRIVATE_REGISTRY  registry with a password and busybox:1
#   DOCKBRIDGE_WORLD_PRIVATE_USER, _PRIVATE_PASSWORD
#   DOCKBRIDGE_WORLD_PAUSE             empty: the embedded image is used
#   DOCKBRIDGE_WORLD_RUNTIME           with --runtime: the program of the engine's runtime "dockbridge"
# The caller may set:
#   DOCKBRIDGE_WORLD_LOGS              a folder for the world's logs, copied at the end
#   DOCKBRIDGE_WORLD_PATIENCE          a factor for all waits, here and in the stories, for emulators
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/engine_folder.sh"
temp=${TMPDIR:-/tmp}
image=dockbridge.test/busybox:1
patience=${DOCKBRIDGE_WORLD_PATIENCE:-1}
registry=127.0.0.1:5000
private=127.0.0.1:5001
user=puller
password=world-secret
# bcrypt of the password above. It protects a registry of test images on loopback during one run.
htpasswd='puller:$2y$05$2yFmuzFXIrVPJdMhL9oWN.rqcsftnxSDIJp6eD/Qcqi8q3WgieHyi'

# ---------------------------------------------------------------------------------------------- outside

outside() {
    local engine=bookworm driver=cgroupfs runtime='' enclosed=() wrong
    while [ $# -gt 0 ]; do
        case $1 in
            --engine) engine=${2:?--engine needs a name}; shift 2 ;;
            --engine=*) engine=${1#*=}; shift ;;
            --driver) driver=${2:?--driver needs a name}; shift 2 ;;
            --driver=*) driver=${1#*=}; shift ;;
            --runtime) runtime=${2:?--runtime needs a path}; shift 2 ;;
            --runtime=*) runtime=${1#*=}; shift ;;
            --) shift; break ;;
            -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
            -*) die "unknown flag: $1" ;;
            *) break ;;
        esac
    done
    [ $# -gt 0 ] || die "a command is needed (see --help)"
    case $engine in */*) wrong=$(check_folder "$engine") || die "$wrong" ;; esac
    [ "$(id -u)" = 0 ] || die "must be root: namespaces and an engine are made"
    [ -z "$runtime" ] || [ -x "$runtime" ] || die "no such program: $runtime"
    case $driver in
        cgroupfs) enclosed=(unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private) ;;
        systemd) [ -e /etc/dockbridge-guest ] || die "--driver systemd takes the whole machine: use tests/env/vm.sh" ;;
        *) die "unknown driver: $driver (cgroupfs, systemd)" ;;
    esac
    install_missing
    sweep
    local root client= criu tools_root
    root=$(root_of "$engine")
    [ -z "$(missing_in "$root" docker)" ] || client=:$("$here/engines.sh" sid)/usr/bin
    # Without CRIU, the stories about checkpoints are skipped.
    if criu=$("$here/engines.sh" criu); then client+=:$criu/usr/sbin; fi
    tools_root=$(tools_root)

    world=$(mktemp -d "$temp/dockbridge-world.XXXXXX")
    trap clear_away EXIT
    # Every process of the world holds this lock, so a world with a free lock is dead. The file gets its name after it is
    # locked. Otherwise another run that sweeps at this moment would find it unlocked.
    exec 9>"$world/alive.new"
    flock 9
    mv "$world/alive.new" "$world/alive"
    inner=
    trap 'forward TERM' TERM INT HUP
    # bash starts background commands with SIGINT ignored, and they could not change that.
    env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
        "${enclosed[@]}" bash "$0" --inside "$world" "$engine" "$driver" "$runtime" "$root" "$client" "$tools_root" "$@" <&0 &
    inner=$!
    local code=0
    while :; do
        wait "$inner" && code=0 || code=$?
        kill -0 "$inner" 2>/dev/null || break
    done
    exit "$code"
}

# unshare ignores signals while it waits, so its child gets them.
forward() {
    local child
    [ -n "$inner" ] || exit 143
    for child in $(cat "/proc/$inner/task/$inner/children" 2>/dev/null); do kill -s "$1" "$child" 2>/dev/null || true; done
}

clear_away() {
    [ -z "${DOCKBRIDGE_WORLD_LOGS:-}" ] || { mkdir -p "$DOCKBRIDGE_WORLD_LOGS" && cp "$world"/log/* "$DOCKBRIDGE_WORLD_LOGS/" 2>/dev/null || true; }
    remove_world "$world"
}

# Processes and mounts ended with the namespaces. Cgroups and files have to be removed.
remove_world() {
    local tree left
    # Killed processes are in their cgroup a moment longer than in their namespace.
    for left in 1 2 3 4 5 6 7 8 9 10; do
        for tree in $(find /sys/fs/cgroup -maxdepth 3 -type d -name "$(basename "$1")" 2>/dev/null); do
            find "$tree" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        done
        [ -n "$(find /sys/fs/cgroup -maxdepth 3 -type d -name "$(basename "$1")" 2>/dev/null)" ] || break
        sleep 0.2
    done
    rm -rf --one-file-system "$1" || true
}

# Removes worlds whose owner was killed before it could clean up.
sweep() {
    local stale
    for stale in "$temp"/dockbridge-world.*; do
        [ -e "$stale/alive" ] || continue
        if flock -n "$stale/alive" true 2>/dev/null; then remove_world "$stale"; fi
    done
}

# Installs only what cannot be unpacked elsewhere. None of these packages starts a service.
install_missing() {
    local missing=()
    command -v ip >/dev/null || missing+=(iproute2)
    command -v iptables >/dev/null || missing+=(iptables)
    command -v curl >/dev/null || missing+=(curl)
    command -v flock >/dev/null || missing+=(util-linux)
    [ ${#missing[@]} = 0 ] && return
    "$here/install.sh" "${missing[@]}" >&2
}

# root_of ENGINE: prints the folder below which its programs are. It is / for the machine's own engine.
root_of() {
    local root=/
    case $1 in
        */*) root=$(folder_of "$1") ;;
        host) command -v dockerd >/dev/null || die "no dockerd on this machine" ;;
        bookworm) /usr/sbin/dockerd --version 2>/dev/null | grep -q ' 20\.10\.' || root=$("$here/engines.sh" bookworm) ;;
        trixie) root=$("$here/engines.sh" trixie) ;;
        sid | sid-containerd) root=$("$here/engines.sh" sid) ;;
        *) die "unknown engine: $1 (bookworm, trixie, sid, sid-containerd, host, or a folder's path)" ;;
    esac
    printf '%s\n' "$root"
}

tools_root() {
    if [ -x /usr/bin/docker-registry ] && [ -x /usr/lib/cni/bridge ] && is_static /bin/busybox; then echo /; else "$here/engines.sh" tools; fi
}

# Debian's package `busybox` is dynamic, and cannot run in an empty image.
is_static() { [ -x "$1" ] && ! ldd "$1" >/dev/null 2>&1; }

# ----------------------------------------------------------------------------------------------- inside

inside() {
    world=$1 engine=$2 driver=$3 runtime=$4 root=$5 client=$6 tools_root=${7%/}
    shift 7
    case $driver in
        systemd) cgroup=dockbridge.slice ;;
        *) cgroup=$(basename "$world") ;;
    esac
    command=
    trap leave EXIT
    trap 'exit 143' TERM INT HUP
    # A link, as an upgrade replaces programs in their places.
    ln -s "$root" "$world/engine"
    export PATH="$(programs_in "$world/engine")$client:$PATH"
    make_room
    write_cni
    write_control
    "$world/bin/engine" start
    start_registry "$registry"
    start_registry "$private" htpasswd
    make_images
    export_world
    local code=0
    # In the background, because a shell handles a signal only after the command in the foreground has ended.
    env --default-signal=INT,QUIT "$@" <&0 9>&- &
    command=$!
    wait "$command" || code=$?
    exit "$code"
}

make_room() {
    mkdir -p "$world"/{bin,run,log,tmp,pids,docker/config,cni/{conf,cache,leases}}
    [ "$driver" = systemd ] || part_from_machine
    mount --bind "$world" "$world"
    mount --make-shared "$world"
    ip link set lo up
    # Published ports on 127.0.0.1 need both. They apply to this namespace only.
    sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1
}

part_from_machine() {
    local resolver
    cp -L /etc/resolv.conf "$world/run/resolv.conf" 2>/dev/null || echo 'nameserver 127.0.0.1' >"$world/run/resolv.conf"
    # Engine and plugins have locks and sockets below /run. They must not use those of the machine.
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/lock
    # Commands of dockbridge would read the settings of the machine's service.
    for file in /etc/default/dockbridge /etc/sysconfig/dockbridge /etc/dockbridge.toml; do
        [ ! -e "$file" ] || { : >"$world/run/no-settings" && mount --bind "$world/run/no-settings" "$file"; }
    done
    if [ ! -e /etc/resolv.conf ]; then
        resolver=$(readlink -m /etc/resolv.conf)
        mkdir -p "$(dirname "$resolver")" && cp "$world/run/resolv.conf" "$resolver"
    fi
    show_own_devices
}

# A sysfs shows the network devices of the namespace in which it was mounted, and engines look there for their devices.
show_own_devices() {
    local part
    mkdir -p "$world/run/sys/fs/"{cgroup,selinux} "$world/run/sys/kernel/security"
    for part in fs/cgroup fs/selinux kernel/security; do ! mountpoint -q "/sys/$part" || mount --move "/sys/$part" "$world/run/sys/$part"; done
    mount -t sysfs sysfs /sys
    for part in fs/cgroup fs/selinux kernel/security; do ! mountpoint -q "$world/run/sys/$part" || mount --move "$world/run/sys/$part" "/sys/$part"; done
}

write_cni() {
    cat >"$world/cni/conf/10-world.conflist" <<JSON
{
  "cniVersion": "1.0.0",
  "name": "world",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$world/cni/leases",
        "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"}
  ]
}
JSON
}

# Stories also start and stop the engine, so a separate script does it.
write_control() {
    local features= parent=/$cgroup
    # With systemd the engine needs the slice's name, not its path.
    [ "$driver" != systemd ] || parent=$cgroup
    case $(store_of "$engine") in
        containerd) features=', "features": {"containerd-snapshotter": true}' ;;
        overlay2) features=', "features": {"containerd-snapshotter": false}, "storage-driver": "overlay2"' ;;
    esac
    [ ! -e /sys/fs/selinux/enforce ] || features+=', "selinux-enabled": true'
    if [ -n "$runtime" ]; then
        # The program works as the OCI runtime if it is called by this name.
        ln -s "$(realpath "$runtime")" "$world/bin/dockbridge-runtime"
        features+=", \"runtimes\": {\"dockbridge\": {\"path\": \"$world/bin/dockbridge-runtime\"}}"
    fi
    printf '{"log-level": "warn"%s}\n' "$features" >"$world/docker/daemon.json"
    cat >"$world/bin/engine" <<SH
#!/usr/bin/env bash
# Starts and ends this world's engine.
set -euo pipefail
world=$world
PATH=$PATH
pidfile=\$world/pids/dockerd
slow='timeout waiting for containerd to start'
answers() { curl -sf -o /dev/null -m 2 --unix-socket "\$world/docker.sock" http://engine/_ping; }
pid() { cat "\$pidfile" 2>/dev/null; }
start() {
    local child
    # An engine that is slow to answer must not get another one beside it.
    child=\$(pid) && kill -0 "\$child" 2>/dev/null || child=
    if [ -n "\$child" ]; then
        await "\$child" && return
    else
        launch "\$@" && return
        # dockerd gives its containerd 15 seconds, and a busy machine needs more. systemd starts dockerd again.
        if tail -n 1 "\$world/log/dockerd.log" | grep -q "\$slow"; then
            echo "all versions: \$slow (https://github.com/moby/moby/issues/43281)" >>"\${DOCKBRIDGE_REPEATS:-/dev/null}"
            launch "\$@" && return
        fi
    fi
    tail -n 40 "\$world/log/dockerd.log" >&2
    echo "world: the engine did not start" >&2
    exit 1
}
launch() {
    local proxy
    rm -f "\$pidfile"
    proxy=\$(type -P docker-proxy) || true
    setsid dockerd --config-file "\$world/docker/daemon.json" --data-root "\$world/docker/data" --exec-root "\$world/docker/exec" \\
        -H "unix://\$world/docker.sock" -p "\$pidfile" --exec-opt native.cgroupdriver=$driver \\
        --cgroup-parent "$parent" \${proxy:+--userland-proxy-path "\$proxy"} "\$@" </dev/null >>"\$world/log/dockerd.log" 2>&1 &
    await \$!
}
# Waits until this engine answers.
await() {
    for _ in \$(seq $((1800 * patience))); do
        if answers; then return; fi
        kill -0 "\$1" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
end() {
    local signal=\$1 id
    id=\$(pid) || return 0
    kill -s "\$signal" "\$id" 2>/dev/null || return 0
    for seconds in \$(seq $((120 * patience))); do
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            # A zombie answers signal 0 as well.
            case \$(sed 's/.*) //;s/ .*//' "/proc/\$id/stat" 2>/dev/null) in '' | Z) break 2 ;; esac
            sleep 0.1
        done
        # Two engines must not share their data.
        [ "\$seconds" != $((100 * patience)) ] || { echo "world: the engine did not end, it is killed" >&2; kill -9 "\$id"; }
    done
    # A killed daemon leaves its file, and the next one refuses to start beside a pid in use.
    rm -f "\$pidfile"
}
back() {
    [ -d "\$world/docker/data.own" ] || return 0
    end TERM
    ln -sfn "$root" "\$world/engine"
    rm -rf "\$world/docker/data"
    mv "\$world/docker/data.own" "\$world/docker/data"
    start
}
case \${1:-} in
    start) shift; start "\$@" ;;
    stop) end TERM ;;
    kill) end KILL ;;
    restart) shift; end TERM; start "\$@" ;;
    pid) pid ;;
    programs) ln -sfn "\$2" "\$world/engine" ;;
    aside) end TERM; mv "\$world/docker/data" "\$world/docker/data.own"; shift; start "\$@" ;;
    back) back ;;
    *) echo "usage: engine start|stop|kill|restart|aside [dockerd flag…], engine pid|programs FOLDER|back" >&2; exit 2 ;;
esac
SH
    chmod 755 "$world/bin/engine"
}

# start_registry ADDRESS [htpasswd]
start_registry() {
    local name=registry-${1##*:} auth=
    if [ "${2:-}" = htpasswd ]; then
        printf '%s\n' "$htpasswd" >"$world/run/htpasswd"
        auth="auth: {htpasswd: {realm: world, path: $world/run/htpasswd}}"
    fi
    printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}\nhttp: {addr: "%s"}\n%s\n' \
        "$world/$name" "$1" "$auth" >"$world/run/$name.yml"
    setsid "$tools_root/usr/bin/docker-registry" serve "$world/run/$name.yml" </dev/null >"$world/log/$name.log" 2>&1 &
    echo $! >"$world/pids/$name"
}

make_images() {
    local root=$world/run/busybox tool busybox=$tools_root/bin/busybox
    export DOCKER_HOST=unix://$world/docker.sock DOCKER_CONFIG=$world/docker/config
    [ -x "$busybox" ] || busybox=$tools_root/usr/bin/busybox
    mkdir -p "$root"/{bin,etc,tmp,root,www,dev,proc,sys,var/run,var/log,home,usr/bin,sbin}
    cp "$busybox" "$root/bin/busybox"
    for tool in $("$busybox" --list); do ln -f "$root/bin/busybox" "$root/bin/$tool" 2>/dev/null || true; done
    printf 'root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nwww:x:33:33:www:/www:/bin/false\nnobody:x:65534:65534:nobody:/home:/bin/false\n' >"$root/etc/passwd"
    printf 'root:x:0:\ndaemon:x:1:\nwww:x:33:\nnogroup:x:65534:\n' >"$root/etc/group"
    echo 'dockbridge world' >"$root/www/index.html"
    chmod 1777 "$root/tmp"
    tar -C "$root" -c . | docker import -c 'CMD ["sh"]' -c 'ENV PATH=/bin:/usr/bin:/sbin' - "$image" >/dev/null
    rm -rf "$root"
    await_registry "$registry"
    await_registry "$private"
    docker login -u "$user" --password-stdin "$private" <<<"$password" >/dev/null 2>&1
    push "$registry/busybox:1"
    push "$private/busybox:1"
    docker logout "$private" >/dev/null
}

# Pushes the test image under a name and removes the name again, so that stories have to pull the image.
push() {
    docker tag "$image" "$1"
    docker push -q "$1" >"$world/log/push.log" 2>&1 || { cat "$world/log/push.log" >&2; die "cannot push $1"; }
    docker rmi "$1" >/dev/null
}

await_registry() {
    for _ in $(seq $((600 * patience))); do
        if curl -s -o /dev/null -m 2 "http://$1/v2/"; then return; fi
        sleep 0.1
    done
    die "the registry at $1 does not answer: $(tail -n 3 "$world/log/registry-${1##*:}.log")"
}

export_world() {
    local plugins=$tools_root/usr/lib/cni
    export DOCKBRIDGE_WORLD=$world
    export DOCKBRIDGE_WORLD_DOCKER=$world/docker.sock
    export DOCKBRIDGE_WORLD_ENGINE=$engine DOCKBRIDGE_WORLD_VERSION DOCKBRIDGE_WORLD_STORE
    DOCKBRIDGE_WORLD_VERSION=$(docker version --format '{{.Server.Version}}')
    DOCKBRIDGE_WORLD_STORE=$(docker info --format '{{.Driver}} {{.DriverStatus}}')
    case $DOCKBRIDGE_WORLD_STORE in
        *io.containerd.snapshotter*) DOCKBRIDGE_WORLD_STORE=containerd ;;
        *) DOCKBRIDGE_WORLD_STORE=${DOCKBRIDGE_WORLD_STORE%% *} ;;
    esac
    case $engine in */*) DOCKBRIDGE_WORLD_ENGINE=$DOCKBRIDGE_WORLD_VERSION-$DOCKBRIDGE_WORLD_STORE ;; esac
    export DOCKBRIDGE_WORLD_ENGINE_CONTROL=$world/bin/engine
    export DOCKBRIDGE_WORLD_CGROUP=/$cgroup
    export DOCKBRIDGE_WORLD_CNI_CONF=$world/cni/conf
    export DOCKBRIDGE_WORLD_CNI_BIN=$plugins
    export DOCKBRIDGE_WORLD_CNI_CACHE=$world/cni/cache
    export DOCKBRIDGE_WORLD_CNI_LEASES=$world/cni/leases/world
    export DOCKBRIDGE_WORLD_IMAGE=$image
    export DOCKBRIDGE_WORLD_REGISTRY=$registry
    export DOCKBRIDGE_WORLD_PRIVATE_REGISTRY=$private
    export DOCKBRIDGE_WORLD_PRIVATE_USER=$user
    export DOCKBRIDGE_WORLD_PRIVATE_PASSWORD=$password
    [ -z "$runtime" ] || export DOCKBRIDGE_WORLD_RUNTIME=$world/bin/dockbridge-runtime
}

# This shell is process 1 of the namespace. Processes that do not end by themselves die with this shell.
leave() {
    local code=$? file left
    trap '' TERM INT HUP
    [ -z "$command" ] || kill "$command" 2>/dev/null || true
    if [ -S "$world/docker.sock" ]; then
        left=$(timeout $((10 * patience)) docker ps -aq 2>/dev/null) || left=
        [ -z "$left" ] || timeout $((60 * patience)) docker rm -f $left >/dev/null 2>&1 || true
        timeout $((60 * patience)) "$world/bin/engine" stop || true
    fi
    # Process 1 waits for its processes, and the frozen ones of cgroup v1 cannot end.
    find "/sys/fs/cgroup/freezer/$cgroup" -name freezer.state -exec sh -c 'echo THAWED >"$1"' _ {} \; 2>/dev/null || true
    for file in "$world"/pids/*; do kill "$(cat "$file")" 2>/dev/null || true; done
    # Without a namespace this mount does not end by itself.
    [ "$driver" != systemd ] || umount -l "$world"
    exit "$code"
}

# ------------------------------------------------------------------------------------------------------

die() {
    printf 'world: %s\n' "$*" >&2
    exit 1
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    outside "$@"
fi
