#!/usr/bin/env bash
# Runs a command and stops it and all its children at random for up to half a second, as a busy host does with a virtual
# machine. Finds tests that depend on timing.
#
# usage: pauses.sh command [argument…]
set -euo pipefail

# Prints the process and all its descendants that still exist.
family() {
    local child
    echo "$1"
    for child in $(cat "/proc/$1"/task/*/children 2>/dev/null || true); do family "$child"; done
}

# moment MILLISECONDS: waits for a random time up to about this long.
moment() { sleep "$(printf '0.%03d' $((20 + RANDOM % $1)))"; }

[ $# -gt 0 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
"$@" &
command=$!
trap 'kill -CONT $(family "$command") 2>/dev/null || true; kill "$command" 2>/dev/null || true' EXIT
pauses=0
while kill -0 "$command" 2>/dev/null; do
    moment 250
    stopped=$(family "$command")
    kill -STOP $stopped 2>/dev/null || true
    moment 500
    kill -CONT $stopped 2>/dev/null || true
    pauses=$((pauses + 1))
done
code=0
wait "$command" || code=$?
echo "$pauses pauses" >&2
exit "$code"
