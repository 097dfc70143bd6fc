#!/usr/bin/env bash
# Repeatedly cuts the power of a node while pods are created and removed, and checks after each cut what is left. The node is
# the machine of vm.sh with a disk that is kept. It is killed with SIGKILL at a random moment and started again.
#
# usage: power.sh [--engine bookworm|trixie|sid] [--cuts 30] [--seed number] [--] dockbridge stories     (as root)
#
# Two disks are kept between the starts. One holds what a node keeps: the engine's data, dockbridge's state, CNI's
# leases and results, logs. What the guest had not written to this disk is lost with the guest's memory. What it had
# written is there, in order, even if it was not flushed, because the host's cache of the disk outlives qemu. So a cut
# loses the caches of the guest's kernel, but not a cache inside a drive. The other disk has no file system: the guest
# records there, synchronously, what the CRI has answered. tests/stories/power.rs has the steps and checks in the guest.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/vm.sh"
processors=${DOCKBRIDGE_VM_PROCESSORS:-1}

power() {
    local engine=bookworm cuts=30 seed=$RANDOM image cut
    while [ $# -gt 0 ]; do
        case $1 in
            --engine) engine=${2:?--engine needs a name}; shift 2 ;;
            --cuts) cuts=${2:?--cuts needs a number}; shift 2 ;;
            --seed) seed=${2:?--seed needs a number}; shift 2 ;;
            --) shift; break ;;
            -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
            -*) die "unknown flag: $1" ;;
            *) break ;;
        esac
    done
    [ $# = 2 ] || die "the programs are needed (see --help)"
    case $engine in
        bookworm | trixie | sid) ;;
        *) die "unknown engine: $engine (bookworm, trixie, sid)" ;;
    esac
    [[ $cuts =~ ^[1-9][0-9]{0,5}$ ]] || die "not a number of cuts: $cuts"
    # bash uses 32 bits of a seed.
    [[ $seed =~ ^(0|[1-9][0-9]{0,8})$ ]] || die "not a seed: $seed (a number of at most nine digits)"
    [ "$(id -u)" = 0 ] || die "must be root: a root file system is made"
    install_missing
    printf 'power: seed %s\n' "$seed"
    RANDOM=$seed
    image=$("$here/vm-image.sh")
    room=$(mktemp -d "$(dirname "$image")/power.XXXXXX")
    trap clear_away EXIT
    trap 'exit 143' TERM INT HUP
    prepare "$engine" "$1" "$2"
    for ((cut = 1; cut <= cuts + 1; cut++)); do
        live "$image" "$engine" "$cut" "$cuts"
    done
    printf 'power: %s cuts, all checked: nothing lost, nothing left\n' "$cuts"
}

# prepare ENGINE DOCKBRIDGE STORIES: makes the disks that are kept, and copies of the programs without debug information.
prepare() {
    mkdir -p "$room/bin" "$room/disk"
    strip -o "$room/bin/dockbridge" "$2"
    strip -o "$room/bin/stories" "$3"
    carried=("$here" "$room/bin")
    # The guest's own engine is bookworm's.
    [ "$1" = bookworm ] || carried+=("$("$here/engines.sh" "$1")")
    mke2fs -q -t ext4 -E root_owner=0:0 "$room/kept.img" 4G >/dev/null
    truncate -s 4M "$room/notes.img"
    more=(-drive "file=$room/kept.img,format=raw,if=virtio,cache=writeback"
        -drive "file=$room/notes.img,format=raw,if=virtio,cache=writeback")
}

# live IMAGE ENGINE CUT CUTS: one start. The guest checks what the last cut left, then runs until the next cut. The last
# start ends by itself.
live() {
    local image=$1 engine=$2 cut=$3 cuts=$4 moment answers code=0 waited
    mkdir -p "$room/disk"
    tr -d '\0' <"$room/notes.img" >"$room/bin/notes"
    truncate -s 0 "$room/notes.img" && truncate -s 4M "$room/notes.img"
    printf 'DOCKBRIDGE_WORLD_PATIENCE=%s STORY_SEED=%s exec %q %q %q %q\n' "${DOCKBRIDGE_WORLD_PATIENCE:-10}" \
        "$((RANDOM * 32768 + RANDOM))" "$here/guest/power" "$engine" "$room/bin" "$([ "$cut" -gt "$cuts" ] && echo rest || echo live)" >"$room/disk/job"
    # The cut comes after this many answers of the CRI and up to three more seconds, so that pods are in progress even on a
    # slow machine.
    answers=$((RANDOM % 15)) moment=$((RANDOM % 3000))
    write_disk "${carried[@]}"
    start "$image" apparmor timeout --kill-after 10 "$limit" nice -n 2 >"$room/said.log" 2>&1
    if [ "$cut" -le "$cuts" ]; then
        for ((waited = 0; waited < limit; waited++)); do
            ! grep -q '^power: pods come and go' "$room/said.log" || break
            kill -0 "$qemu" 2>/dev/null || break
            sleep 1
        done
        for ((waited = 0; waited < 300; waited++)); do
            [ "$(tr -d '\0' <"$room/notes.img" | wc -l)" -lt "$answers" ] || break
            kill -0 "$qemu" 2>/dev/null || break
            sleep 1
        done
        sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
        cut_power
    fi
    # Without bash's message about a killed job.
    wait "$qemu" 2>/dev/null || code=$?
    qemu=
    [ "$cut" -gt "$cuts" ] || printf 'power: start %s: cut after %s answers\n' "$cut" "$(tr -d '\0' <"$room/notes.img" | wc -l)"
    { grep '^power: ' "$room/said.log" || true; } | sed "s/^power: /power: start $cut: /"
    if ! grep -q "$([ "$cut" -gt "$cuts" ] && echo '^power: at rest' || echo '^power: pods come and go')" "$room/said.log"; then
        keep
        die "start $cut failed, see $(dirname "$image")/power"
    fi
}

# Kills qemu itself, because its parent `timeout` does not pass on SIGKILL.
cut_power() {
    local child
    for child in $(cat "/proc/$qemu/task/$qemu/children" 2>/dev/null); do kill -s KILL "$child" 2>/dev/null || true; done
}

# Keeps what is needed to examine a failure: the guest's output and the disks as the cut left them.
keep() {
    local last=$cache/power
    rm -rf "$last"
    mkdir -p "$last"
    tail -n 60 "$room/said.log" >&2
    cp --sparse=always "$room"/{said.log,console.log,kept.img} "$room/bin/notes" "$last/"
    debugfs -R "rdump /result/logs $last" "$room/disk.img" >/dev/null 2>&1 || true
}

power "$@"
