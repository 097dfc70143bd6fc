#!/usr/bin/env bash
# Runs parts of the tests, each a target of the Makefile, all of them whatever fails, and prints one verdict: the time
# of each part, what was skipped and repeated, each failure with the command that repeats it, and the counts.
#
# usage: suite.sh TARGET…
#   DOCKBRIDGE_SKIPS, DOCKBRIDGE_REPEATS   files in which tests note what they skip, and which known faults of an
#                                          engine they met (tests/skips, tests/known_faults)
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
logs=${CARGO_TARGET_DIR:-$root/target}/test
make=${MAKE:-make}
# Known faults of an engine may disturb a run this often.
most_repeats=2

main() {
    local part begun code passed=0 failed=0 skipped=0
    rm -rf "$logs" && mkdir -p "$logs"
    : >"$DOCKBRIDGE_SKIPS" && : >"$DOCKBRIDGE_REPEATS"
    : >"$logs/times" && : >"$logs/failures"
    for part in "$@"; do
        echo "== $part"
        begun=$SECONDS code=0
        # Standard error stays on the terminal, for the line that shows progress.
        "$make" --no-print-directory "$part" | tee "$logs/$part.log" || code=1
        printf '%5s s  %s\n' $((SECONDS - begun)) "$part" >>"$logs/times"
        count "$part" "$code"
    done
    check_repeats
    skipped=$(wc -l <"$DOCKBRIDGE_SKIPS")
    failed=$(grep -c . "$logs/failures")
    echo
    sort "$DOCKBRIDGE_SKIPS" | uniq -c | sed 's/^ */skipped /'
    sort "$DOCKBRIDGE_REPEATS" | uniq -c | sed 's/^ */repeated /'
    cat "$logs/times"
    sed 's/^/FAILED  /' "$logs/failures"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

# count PART CODE: adds what a part's log tells to the verdict.
count() {
    local log=$logs/$1.log before
    before=$(wc -l <"$logs/failures")
    passed=$((passed + $(awk '/^test result: / { sum += $4 } END { print sum + 0 }' "$log")))
    {
        # The tests of Rust's harness; those of ours say themselves how to repeat them.
        sed -n 's/^test \(.*\) \.\.\. FAILED$/\1: cargo test -- --exact \1/p' "$log"
        sed -n 's/^repeat: \(.* STORY=\(.*\)\)$/\2: \1/p' "$log"
    } >>"$logs/failures"
    # A part without counts is one test; one that failed without a failed test has a fault of its own.
    if [ "$2" != 0 ]; then
        [ "$(wc -l <"$logs/failures")" != "$before" ] || echo "$1: make $1" >>"$logs/failures"
    elif ! grep -q '^test result: ' "$log"; then
        passed=$((passed + 1))
    fi
}

check_repeats() {
    local repeats
    repeats=$(wc -l <"$DOCKBRIDGE_REPEATS")
    [ "$repeats" -le "$most_repeats" ] ||
        echo "known faults of an engine were met $repeats times, more than $most_repeats: see $DOCKBRIDGE_REPEATS" >>"$logs/failures"
}

[ $# -gt 0 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
main "$@"
