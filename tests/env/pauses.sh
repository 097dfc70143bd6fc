#!/usr/bin/env bash
# Runs a command and stops it, with all it has started, at random for up to half a second: what a busy host does to a
# virtual machine. Finds tests that count on time.
#
# usage: pauses.sh command [argument…]
set -euo pipefail

# The process and all below it, of those that still live.
family() {
    local child
    echo "$1"
    for child in $(cat "/proc/$1"/task/*/children 2>/dev/null || true); do family "$child"; done
}

# A moment of up to so many milliseconds.
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
