#!/usr/bin/env bash
# Runs parts of the tests, each a target of the Makefile. Continues after a failure. Prints one result at the end: the time of
# each part, skipped and repeated tests, each failure with the command that repeats it, and the counts.
#
# usage: suite.sh TARGET…
#   DOCKBRIDGE_SKIPS, DOCKBRIDGE_REPEATS   files in which tests record what they skip, and which known faults of an
#                                          engine they met (tests/skips, tests/known_faults)
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
logs=$target/test
# How often known faults of an engine may occur in a run.
most_repeats=2
last_line='== end of the part'
# These are variables, not files, because a failure must not be lost on a full disk.
passed=0 times=() failures=()

main() {
    local part begun code skipped
    mkdir -p "$target"
    # This lock belongs to one run. Processes that a test leaves behind do not hold it.
    exec 8>"$target/test.lock"
    flock -n 8 || { echo "another run of the tests uses $target" >&2; exit 2; }
    rm -rf "$logs" && mkdir "$logs" && : >"$DOCKBRIDGE_SKIPS" && : >"$DOCKBRIDGE_REPEATS" || exit 2
    for part in "$@"; do
        echo "== $part"
        begun=$SECONDS code=0
        # A process that a test leaves behind can hold the pipe. The last line, not the end of the pipe, ends the output.
        run "$part" 8>&- | sed -u "/^$last_line\$/Q" | tee "$logs/$part.log" || code=1
        times+=("$(printf '%5s s  %s' $((SECONDS - begun)) "$part")")
        count "$part" "$code"
    done
    check_repeats
    skipped=$(wc -l <"$DOCKBRIDGE_SKIPS")
    echo
    sort "$DOCKBRIDGE_SKIPS" | uniq -c | sed 's/^ */skipped /'
    sort "$DOCKBRIDGE_REPEATS" | uniq -c | sed 's/^ */repeated /'
    printf '%s\n' "${times[@]}"
    [ ${#failures[@]} = 0 ] || printf 'FAILED  %s\n' "${failures[@]}"
    echo "$passed passed, ${#failures[@]} failed, $skipped skipped"
    [ ${#failures[@]} = 0 ]
}

# run PART: runs it and prints the last line. Standard error has the line that shows progress, so it goes to a terminal.
run() {
    local code=0
    [ -t 2 ] || exec 2>&1
    make --no-print-directory "$1" || code=$?
    printf '\n%s\n' "$last_line"
    return "$code"
}

# count PART CODE: adds the counts in a part's log to the result.
count() {
    local log=$logs/$1.log failed=()
    passed=$((passed + $(awk '/^test result: / { sum += $4 } END { print sum + 0 }' "$log")))
    # Rust's test harness prints failed tests only. Our own runner prints the command that repeats each of them.
    mapfile -t failed < <(
        sed -n "s/^test \(.*\) \.\.\. FAILED$/\1: PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} cargo test -- --exact \1/p" "$log"
        sed -n 's/^repeat: \(.* STORY=\(.*\)\)$/\2: \1/p' "$log"
    )
    # A part without counts is one test. If a part fails without a failed test, the part itself is the failure.
    if [ "$2" != 0 ]; then
        [ ${#failed[@]} != 0 ] || failed=("$1: make $1")
    elif ! grep -q '^test result: ' "$log"; then
        passed=$((passed + 1))
    fi
    failures+=("${failed[@]}")
}

check_repeats() {
    local repeats
    repeats=$(wc -l <"$DOCKBRIDGE_REPEATS")
    [ "$repeats" -le "$most_repeats" ] ||
        failures+=("known faults of an engine were met $repeats times, more than $most_repeats: see $DOCKBRIDGE_REPEATS")
}

[ $# -gt 0 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
main "$@"
