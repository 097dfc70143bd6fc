#!/usr/bin/env bash
# Fuzzes the decoders of src/fuzz.rs with LLVM's libFuzzer, on stable Rust.
#
# usage: fuzz.sh run [TARGET…]        fuzzes each target (by default all) for TIME seconds, one on each core
#        fuzz.sh replay TARGET FILE…  reads files once and prints the panic with its backtrace
#        fuzz.sh keep [TARGET…]       rewrites the committed inputs: those with names, and some that reach more code
#        fuzz.sh list                 prints the targets
#
# The inputs of a run stay below target/fuzz/corpus, and the next run continues with them. Inputs that break a decoder are
# in target/fuzz/findings/TARGET. The committed inputs are in tests/fuzz/corpus/TARGET.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
place=$root/target/fuzz
committed=$root/tests/fuzz/corpus
cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
fuzzer=$place/$host/fuzz/examples/fuzz
# Longer inputs reach no more code.
longest=4096

main() {
    local verb=${1:-}
    [ $# -gt 0 ] && shift
    case $verb in
        run | keep) build && "$verb" "$@" ;;
        replay) build && replay "$@" ;;
        list) build && "$fuzzer" --list ;;
        *) sed -n '4,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    esac
}

# Builds the crate and its dependencies with a counter at every edge of the code. libFuzzer also sees the operands of all
# comparisons.
build() {
    local llvm libraries flags
    llvm=$("$here/engines.sh" fuzzer)
    libraries=$(dirname "$(find "$llvm" -name "libclang_rt.fuzzer_no_main-$(uname -m).a")")
    flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares
        "-Clink-arg=$libraries/libclang_rt.fuzzer_no_main-$(uname -m).a"
        "-Clink-arg=$libraries/libclang_rt.fuzzer_interceptors-$(uname -m).a" -Clink-arg=-l:libstdc++.so.6)
    echo "building the fuzzer in $place: the first build takes minutes" >&2
    # With --target, the flags do not apply to build scripts and macros, which run during the build.
    CARGO_TARGET_DIR=$place RUSTFLAGS="${flags[*]}" "$cargo" build --quiet --manifest-path "$root/Cargo.toml" \
        --profile fuzz --features fuzz --target "$host" --example fuzz
}

run() {
    local seconds=${TIME:-600} target bad=0 running=0 targets=("$@")
    [ $# -gt 0 ] || mapfile -t targets < <("$fuzzer" --list)
    # libFuzzer reads other texts as 0, which means no limit.
    [[ $seconds =~ ^[1-9][0-9]{0,8}$ ]] || { echo "TIME=$seconds is not a number of seconds" >&2 && return 2; }
    known "${targets[@]}" || return 2
    printf '%-16s %8s %14s %10s %10s %8s %s\n' target seconds executions 'per second' coverage inputs findings
    for target in "${targets[@]}"; do
        [ "$running" -lt "$(nproc)" ] || { wait -n || bad=1; running=$((running - 1)); }
        one "$target" "$seconds" &
        running=$((running + 1))
    done
    for (( ; running > 0; running--)); do wait -n || bad=1; done
    [ "$bad" = 0 ] || printf 'findings are below %s; read one with: tests/env/fuzz.sh replay TARGET FILE\n' "$place/findings"
    return "$bad"
}

# known TARGET…: fails for the first name that is not a target, and prints all targets.
known() {
    local target all
    all=$("$fuzzer" --list)
    for target in "$@"; do
        grep -qxF -- "$target" <<<"$all" || { echo "no target $target; targets: $(xargs <<<"$all")" >&2 && return 1; }
    done
}

# one TARGET SECONDS: fuzzes a target and prints its row of the table. Fails if there is a finding.
one() {
    local target=$1 seconds=$2 grown=$place/corpus/$1 findings=$place/findings/$1 log=$place/$1.log words=$place/$1.words
    local before after row files
    mkdir -p "$grown" "$findings" "$committed/$target"
    # Some decoders read files. They are in memory if the machine has /dev/shm.
    files=$(mktemp -d --tmpdir="$([ -w /dev/shm ] && echo /dev/shm || echo "$place")")
    before=$(ls "$findings" | wc -l)
    dictionary "$committed/$target" >"$words"
    TMPDIR=$files nice -n 19 "$fuzzer" "--target=$target" -max_total_time="$seconds" -max_len="$longest" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -use_value_profile=1 -reload=0 -dict="$words" -artifact_prefix="$findings/" \
        "$grown" "$committed/$target" >"$log" 2>&1 </dev/null || true
    rm -rf "$files"
    after=$(ls "$findings" | wc -l)
    row=$(awk '/^#[0-9]/ { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
        /^stat::number_of_executed_units/ { done = $2 } /^stat::average_exec_per_sec/ { speed = $2 }
        /^Done .* second/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^second/) took = $i }
        END { print (took == "" ? "-" : took), (done == "" ? "-" : done), (speed == "" ? "-" : speed), cov }' "$log")
    # shellcheck disable=SC2086
    printf '%-16s %8s %14s %10s %10s %8s %s\n' "$target" $row "$(ls "$grown" | wc -l)" "$((after - before))"
    [ "$after" = "$before" ] && grep -q '^Done ' "$log" || { tail -n 30 "$log" | cut -c1-300 >&2 && return 1; }
}

# Prints the words of the committed inputs: keys of JSON, names of fields and headers, …
dictionary() {
    echo '"null"'
    find "$1" -type f -exec grep -aohE '[A-Za-z_][A-Za-z0-9_.:/-]{2,30}' {} + | LC_ALL=C sort | uniq -c | sort -rn |
        head -n 300 | awk '{ printf "\"%s\"\n", $2 }' || true
}

replay() {
    # Without a file libFuzzer would start to fuzz without a time limit.
    [ $# -ge 2 ] || { echo "usage: fuzz.sh replay TARGET FILE…" >&2 && return 2; }
    local target=$1
    shift
    known "$target" || return 2
    RUST_BACKTRACE=1 "$fuzzer" "--target=$target" -timeout=10 -rss_limit_mb=2048 "$@"
}

keep() {
    local target targets=("$@") fresh file
    [ $# -gt 0 ] || mapfile -t targets < <("$fuzzer" --list)
    known "${targets[@]}" || return 2
    for target in "${targets[@]}"; do
        fresh=$place/kept/$target
        mkdir -p "$place/corpus/$target" "$committed/$target"
        # Inputs with a name stay. The others are named after their hash.
        find "$committed/$target" -type f -regextype egrep -regex '.*/[0-9a-f]{40}' -exec mv -t "$place/corpus/$target" {} +
        rm -rf "$fresh" && cp -r "$committed/$target" "$fresh"
        # Only edges count, not how often they are reached.
        nice -n 19 "$fuzzer" "--target=$target" -set_cover_merge=1 -use_counters=0 -max_len="$longest" -timeout=10 \
            "$fresh" "$place/corpus/$target" >"$place/$target.keep.log" 2>&1
        find "$fresh" -type f -regextype egrep -regex '.*/[0-9a-f]{40}' -printf '%s %p\n' | sort -n | evenly |
            while read -r _ file; do cp "$file" "$committed/$target/"; done
        printf '%-16s %s inputs\n' "$target" "$(ls "$committed/$target" | wc -l)"
    done
}

# Prints at most 20 of the lines, evenly spread. The first and the last line are always among them.
evenly() {
    awk -v most=20 '{ line[NR] = $0 }
        END { n = NR < most ? NR : most; for (i = 0; i < n; i++) print line[n == 1 ? 1 : 1 + int(i * (NR - 1) / (n - 1))] }'
}

main "$@"
