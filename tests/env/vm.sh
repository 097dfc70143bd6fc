#!/usr/bin/env bash
# Runs a command in a world (world.sh) inside a virtual machine: Debian 12 with systemd, cgroup v2, AppArmor, swap
# and all capabilities, on an emulated processor, so that no hardware support is needed. The guest has no network.
# The command's output is shown at once, and its exit code is the exit code of this script.
#
# usage: vm.sh [--engine bookworm|trixie|sid|sid-containerd|/folder[:store]] [--driver systemd|cgroupfs]
#              [--lsm apparmor|selinux] [--runtime dockbridge] [--carry path]… [--] command [argument…]     (as root)
#
# --driver is the engine's cgroup driver (default: systemd). --lsm is the security module of the kernel. SELinux has Debian's
# policy and is permissive, and the engine labels containers. --runtime is as in world.sh, and its program needs --carry.
# --carry copies a file or a folder to the same absolute path in the guest. Programs must not need a newer libc than that of
# Debian 12.
#
#   DOCKBRIDGE_VM           folder of the cached image and the last run's logs (default: target/vm)
#   DOCKBRIDGE_VM_MEMORY    memory of the guest in MiB (default: 3072)
#   DOCKBRIDGE_VM_LIMIT     seconds after which the guest is killed (default: 3600)
#   DOCKBRIDGE_WORLD_PATIENCE, STORY_SEED   as in world.sh; the default patience is 10
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/engine_folder.sh"
cache=${DOCKBRIDGE_VM:-$here/../../target/vm}
engines=${DOCKBRIDGE_ENGINES:-$here/../../target/engines}
memory=${DOCKBRIDGE_VM_MEMORY:-3072}
limit=${DOCKBRIDGE_VM_LIMIT:-3600}
processors=2 more=() runtime=()

main() {
    local engine=bookworm driver=systemd lsm=apparmor carried=("$here") image criu
    while [ $# -gt 0 ]; do
        case $1 in
            --engine) engine=${2:?--engine needs a name}; shift 2 ;;
            --driver) driver=${2:?--driver needs a name}; shift 2 ;;
            --lsm) lsm=${2:?--lsm needs a name}; shift 2 ;;
            --runtime) runtime=(--runtime "$(realpath -s "${2:?--runtime needs a path}")"); shift 2 ;;
            --carry) carried+=("$(realpath -s "${2:?--carry needs a path}")"); shift 2 ;;
            --) shift; break ;;
            -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
            -*) die "unknown flag: $1" ;;
            *) break ;;
        esac
    done
    [ $# -gt 0 ] || die "a command is needed (see --help)"
    [ "$(id -u)" = 0 ] || die "must be root: a root file system is made"
    install_missing
    case $engine in
        bookworm) ;;
        trixie) carried+=("$("$here/engines.sh" trixie)") ;;
        sid | sid-containerd) carried+=("$("$here/engines.sh" sid)") ;;
        */*)
            image=$(check_folder "$engine") || die "$image"
            carried+=("$(folder_of "$engine")")
            [ -z "$(missing_in "$(folder_of "$engine")" docker)" ] || carried+=("$("$here/engines.sh" sid)")
            ;;
        *) die "unknown engine: $engine (bookworm, trixie, sid, sid-containerd, or a folder's path)" ;;
    esac
    # Without CRIU, the stories about checkpoints are skipped.
    if criu=$("$here/engines.sh" criu); then carried+=("$criu"); fi
    case $lsm in
        apparmor | selinux) ;;
        *) die "unknown security module: $lsm (apparmor, selinux)" ;;
    esac
    image=$("$here/vm-image.sh")
    room=$(mktemp -d "$(dirname "$image")/run.XXXXXX")
    trap clear_away EXIT
    trap 'exit 143' TERM INT HUP
    write_job "$engine" "$driver" "$@"
    write_disk "${carried[@]}"
    boot "$image" "$lsm"
    finish "$(dirname "$image")/last"
}

install_missing() {
    local missing=()
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    command -v debootstrap >/dev/null || missing+=(debootstrap debian-archive-keyring)
    command -v mke2fs >/dev/null && command -v debugfs >/dev/null || missing+=(e2fsprogs)
    [ ${#missing[@]} = 0 ] && return
    "$here/install.sh" "${missing[@]}" >&2
}

# write_job ENGINE DRIVER command [argument…]: writes the command that the guest runs.
write_job() {
    local job=$room/disk/job name
    local line=("$here/world.sh" --engine "$1" --driver "$2" "${runtime[@]}" --)
    shift 2
    mkdir -p "$room/disk"
    {
        for name in DOCKBRIDGE_WORLD_PATIENCE STORY_SEED; do [ -z "${!name:-}" ] || printf 'export %s=%q\n' "$name" "${!name}"; done
        printf 'export DOCKBRIDGE_WORLD_PATIENCE=${DOCKBRIDGE_WORLD_PATIENCE:-10} DOCKBRIDGE_ENGINES=%q\n' "$(realpath -sm "$engines")"
        printf '%q ' exec "${line[@]}" "$@"
        echo
    } >"$job"
}

# write_disk PATH…: makes the disk that carries files into the guest and results out of it. It has no journal, so it is
# complete after a sync.
write_disk() {
    local path disk=$room/disk
    cp -a "$here/guest" "$disk/guest"
    for path in "$@"; do
        mkdir -p "$disk/files$(dirname "$path")"
        cp -a --reflink=auto "$path" "$disk/files$path"
        printf '%s\n' "$path"
    done >"$disk/carried"
    mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0 -d "$disk" "$room/disk.img" $(($(du -sm "$disk" | cut -f 1) * 5 / 4 + 256))M >/dev/null
    rm -rf "$disk"
}

# boot IMAGE LSM: runs the guest. Changes to the root disk go to a temporary file of qemu. The kernel and systemd write to the
# first serial port, the job to the second one.
boot() {
    local code=0
    start "$1" "$2" timeout --kill-after 10 "$limit"
    wait "$qemu" || code=$?
    qemu=
    [ "$code" != 124 ] || printf 'vm: not done within %s s\n' "$limit" >&2
}

# start IMAGE LSM [word…]: starts the guest in the background, with these words before the command. `more` has further flags.
start() {
    local image=$1 lsm=$2
    shift 2
    TMPDIR=$room "$@" qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu max -smp "$processors" -m "$memory" -nodefaults -no-user-config -no-reboot -display none -nic none \
        -kernel "$image/kernel" -initrd "$image/initramfs" \
        -append "console=ttyS0 quiet panic=-1 net.ifnames=0 nowatchdog mitigations=off audit=0 security=$lsm $lsm=1 \
systemd.unified_cgroup_hierarchy=1 systemd.unit=dockbridge-guest.service systemd.show_status=0" \
        -drive "file=$image/root.img,format=raw,if=virtio,snapshot=on" \
        -drive "file=$room/disk.img,format=raw,if=virtio,cache=unsafe" \
        "${more[@]}" -device virtio-rng-pci -serial "file:$room/console.log" -serial stdio </dev/null &
    qemu=$!
}

# finish FOLDER: keeps the logs in the folder and exits with the command's exit code.
finish() {
    local code
    rm -rf "$1"
    mkdir -p "$1"
    cp "$room/console.log" "$1/"
    debugfs -R "rdump /result/logs $1" "$room/disk.img" >/dev/null 2>&1
    code=$(debugfs -R 'cat /result/code' "$room/disk.img" 2>/dev/null)
    [ -n "$code" ] || { tail -n 20 "$1/console.log" >&2; die "the guest ended without a result, see $1"; }
    [ "$code" = 0 ] || printf 'vm: exit code %s, logs are in %s\n' "$code" "$1" >&2
    exit "$code"
}

clear_away() {
    [ -z "${qemu:-}" ] || { kill "$qemu" 2>/dev/null && wait "$qemu" || true; }
    rm -rf "$room"
}

die() {
    printf 'vm: %s\n' "$*" >&2
    exit 1
}

# power.sh and packages.sh use these functions.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
