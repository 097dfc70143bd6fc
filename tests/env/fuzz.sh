#!/usr/bin/env bash
# Fuzzes the decoders of src/fuzz.rs with LLVM's libFuzzer, on stable Rust.
#
# usage: fuzz.sh run [TARGET…]        each target (all without one) for TIME seconds, one after the other
#        fuzz.sh replay TARGET FILE…  reads files once, with the panic and where it came from
#        fuzz.sh keep [TARGET…]       makes the committed inputs anew: those with names, and some that reach more
#        fuzz.sh list                 the targets
#
# What a run finds is kept below target/fuzz/corpus and goes on from there; what breaks a decoder is written to
# target/fuzz/findings/TARGET. The committed inputs are tests/fuzz/corpus/TARGET.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
place=$root/target/fuzz
committed=$root/tests/fuzz/corpus
cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
fuzzer=$place/$host/fuzz/examples/fuzz
# Longer inputs find nothing but their length.
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

# The crate and all it uses, with a counter at every edge and the numbers of every comparison told to libFuzzer.
build() {
    local llvm libraries flags
    llvm=$("$here/engines.sh" fuzzer)
    libraries=$(dirname "$(find "$llvm" -name "libclang_rt.fuzzer_no_main-$(uname -m).a")")
    flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares
        "-Clink-arg=$libraries/libclang_rt.fuzzer_no_main-$(uname -m).a"
        "-Clink-arg=$libraries/libclang_rt.fuzzer_interceptors-$(uname -m).a" -Clink-arg=-l:libstdc++.so.6)
    echo "building the fuzzer in $place: minutes at first" >&2
    # For a target by name, so that what runs while building is left as it is.
    CARGO_TARGET_DIR=$place RUSTFLAGS="${flags[*]}" "$cargo" build --quiet --manifest-path "$root/Cargo.toml" \
        --profile fuzz --features fuzz --target "$host" --example fuzz
}

run() {
    local seconds=${TIME:-600} target bad=0 targets=("$@")
    [ $# -gt 0 ] || mapfile -t targets < <("$fuzzer" --list)
    # libFuzzer reads other texts as 0, which is for ever.
    [[ $seconds =~ ^[1-9][0-9]{0,8}$ ]] || { echo "TIME=$seconds is no number of seconds" >&2 && return 2; }
    known "${targets[@]}" || return 2
    printf '%-16s %8s %14s %10s %10s %8s %s\n' target seconds executions 'per second' coverage inputs findings
    for target in "${targets[@]}"; do one "$target" "$seconds" || bad=1; done
    [ "$bad" = 0 ] || printf 'findings are below %s; read one with: tests/env/fuzz.sh replay TARGET FILE\n' "$place/findings"
    return "$bad"
}

# known TARGET…: fails for the first that is none, and tells which there are.
known() {
    local target all
    all=$("$fuzzer" --list)
    for target in "$@"; do
        grep -qxF -- "$target" <<<"$all" || { echo "no target $target; there are: $(xargs <<<"$all")" >&2 && return 1; }
    done
}

# one TARGET SECONDS: a row of the table; fails with a finding.
one() {
    local target=$1 seconds=$2 grown=$place/corpus/$1 findings=$place/findings/$1 log=$place/$1.log words=$place/$1.words
    local before after row files
    mkdir -p "$grown" "$findings" "$committed/$target"
    # Some decoders read files: in memory, if there is such a place.
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

# The words of the committed inputs: keys of JSON, names of fields, of headers, …
dictionary() {
    echo '"null"'
    find "$1" -type f -exec grep -aohE '[A-Za-z_][A-Za-z0-9_.:/-]{2,30}' {} + | LC_ALL=C sort | uniq -c | sort -rn |
        head -n 300 | awk '{ printf "\"%s\"\n", $2 }' || true
}

replay() {
    # Without a file libFuzzer would begin to fuzz, for ever.
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
        # What people named stays; the rest has a hash for a name.
        find "$committed/$target" -type f -regextype egrep -regex '.*/[0-9a-f]{40}' -exec mv -t "$place/corpus/$target" {} +
        rm -rf "$fresh" && cp -r "$committed/$target" "$fresh"
        # Edges only, and only once: what reaches the same code in another number is left out.
        nice -n 19 "$fuzzer" "--target=$target" -set_cover_merge=1 -use_counters=0 -max_len="$longest" -timeout=10 \
            "$fresh" "$place/corpus/$target" >"$place/$target.keep.log" 2>&1
        find "$fresh" -type f -regextype egrep -regex '.*/[0-9a-f]{40}' -printf '%s %p\n' | sort -n | evenly |
            while read -r _ file; do cp "$file" "$committed/$target/"; done
        printf '%-16s %s inputs\n' "$target" "$(ls "$committed/$target" | wc -l)"
    done
}

# At most so many of the lines, from all over: the smallest and the largest are among them.
evenly() {
    awk -v most=20 '{ line[NR] = $0 }
        END { n = NR < most ? NR : most; for (i = 0; i < n; i++) print line[n == 1 ? 1 : 1 + int(i * (NR - 1) / (n - 1))] }'
}

main "$@"
