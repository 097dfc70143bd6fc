#!/usr/bin/env bash
# Runs the commands of all documents in a private world and compares what they print with the page.
#
# usage: world.sh -- book.sh path-of-dockbridge [page …]     (`make book-test`; needs crictl and busybox-static)
#
# Commands are in ```console blocks and in indented blocks. A block after the line `<!-- tested -->` is run. All blocks of a
# page are run in one shell. Every other block follows a line `<!-- not run: REASON -->`. In ```console, `$ ` begins a
# command, `> ` continues it, and other lines are its output. `…` matches anything. Ids, ages, ports and times may differ. In
# an indented block each line is a command that must succeed. `<!-- tested: COMMAND -->` runs a command that readers do not
# see.
set -euo pipefail

skipped=()
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dockbridge=$(realpath "${1:?the path of dockbridge is missing}")
shift
command -v crictl >/dev/null || { echo "book: crictl is missing" >&2; exit 1; }
# README.md says that it is needed. `make book-test` installs it.
[ -x /bin/busybox ] || { echo "book: /bin/busybox is missing: apt-get install busybox-static" >&2; exit 1; }

main() {
    local page found failed=0 pages=("$@")
    [ $# -gt 0 ] || pages=("$root"/docs/guides/*.md "$root"/docs/*.md "$root"/docs/decisions/*.md "$root"/*.md)
    found=$(realpath -e "${pages[@]}")
    mapfile -t pages <<<"$found"
    prepare
    for page in "${pages[@]}"; do run_page "$page" || failed=1; done
    # Printed like the skips of `make test`.
    [ ${#skipped[@]} = 0 ] || printf '%s\n' "${skipped[@]}" | sort | uniq -c | sed 's/^ */skipped blocks of commands: /'
    exit "$failed"
}

# Prepares what the pages assume: Docker's usual socket, dockbridge in PATH and running, a folder to work in.
prepare() {
    place=$DOCKBRIDGE_WORLD/tmp/book
    mkdir -p "$place/bin"
    # `setup` looks for the runtime beside the program.
    cp "$dockbridge" "$place/bin/dockbridge" && ln -s dockbridge "$place/bin/dockbridge-runtime"
    [ -e /run/docker.sock ] || ln -s "$DOCKBRIDGE_WORLD_DOCKER" /run/docker.sock
    export PATH=$place/bin:$PATH DOCKER_BUILDKIT=0
    export DOCKBRIDGE_CNI_CONF_DIR=$DOCKBRIDGE_WORLD_CNI_CONF DOCKBRIDGE_CNI_BIN_DIR=$DOCKBRIDGE_WORLD_CNI_BIN
    export DOCKBRIDGE_CNI_CACHE_DIR=$DOCKBRIDGE_WORLD_CNI_CACHE DOCKBRIDGE_STATE_DIR=$place/state
    export CONTAINER_RUNTIME_ENDPOINT=unix:///run/dockbridge/dockbridge.sock CRI_CONFIG_FILE=$place/crictl.yaml
    echo "runtime-endpoint: $CONTAINER_RUNTIME_ENDPOINT" >"$CRI_CONFIG_FILE"
    # Only the variables of tests are removed: settings of dockbridge begin with DOCKBRIDGE_ as well.
    image=$DOCKBRIDGE_WORLD_IMAGE conf=$DOCKBRIDGE_WORLD_CNI_CONF
    unset "${!DOCKBRIDGE_WORLD@}" DOCKBRIDGE_ENGINES DOCKBRIDGE_FULL_SIZE DOCKBRIDGE_SKIPS DOCKBRIDGE_REPEATS
    export place image conf
    cd "$place"
    DOCKER_HOST=unix:///run/docker.sock serve
}

# Starts dockbridge, or restarts it. Pages call this as well.
serve() {
    if [ -n "${server:-}" ]; then kill "$server"; wait "$server" || true; fi
    dockbridge serve >>"$place/serve.log" 2>&1 &
    server=$!
    until crictl version >/dev/null 2>&1; do kill -0 "$server" || { cat "$place/serve.log"; exit 1; }; sleep 0.1; done
}

run_page() {
    local page=$1 kind text number=0 passed=0 code=0
    commands=() expected=()
    while IFS= read -r kind && IFS= read -r text; do
        case $kind in
            command) commands+=("$text") expected+=("") ;;
            more) commands[-1]+=$'\n'$text ;;
            hidden | succeeds) commands+=("$text") expected+=("$kind") ;;
            output) expected[-1]+=$text$'\n' ;;
            skip) skipped+=("$text") ;;
            unmarked) echo "${page#"$root"/}:$text: neither tested nor \`not run\`" >&2 && code=1 ;;
        esac
    done < <(blocks "$page")
    [ ${#commands[@]} -gt 0 ] || return "$code"
    export DOCKER_HOST=unix:///run/docker.sock
    rm -rf "$place/page" && mkdir "$place/page" && cd "$place/page"
    for number in "${!commands[@]}"; do
        run_one "${commands[$number]}" "${expected[$number]}" && passed=$((passed + 1)) || code=1
    done
    crictl rmp -fa >/dev/null 2>&1 || true
    echo "${page#"$root"/}: $passed of ${#commands[@]} commands as printed"
    return "$code"
}

run_one() {
    local seen ended=0
    eval "$1" >"$place/answer" 2>&1 </dev/null || ended=$?
    case $2 in
        hidden) return 0 ;;
        succeeds) [ "$ended" = 0 ] || { printf -- '--- %s\nended with %s and printed:\n%s\n' "$1" "$ended" "$(cat "$place/answer")" >&2; return 1; }; return 0 ;;
    esac
    seen=$(plain <"$place/answer")
    # shellcheck disable=SC2053  # the right side is a pattern
    [[ $seen == $(plain <<<"$2" | pattern) ]] && return
    printf -- '--- %s\nprinted:\n%s\nthe page has:\n%s\n' "$1" "$(cat "$place/answer")" "$2" >&2
    return 1
}

# Prints pairs of lines: a kind (command, more, hidden, succeeds, output, skip, unmarked) and a text.
blocks() {
    awk '
        function begin() { if (!mark) { print "unmarked"; print FNR } runs = mark == "tested"; mark = "" }
        /^<!-- tested: / { sub(/^<!-- tested: /, ""); sub(/ -->$/, ""); print "hidden"; print; next }
        /^<!-- tested -->/ { mark = "tested"; next }
        /^<!-- not run: / { sub(/^<!-- not run: /, ""); sub(/ -->$/, ""); print "skip"; print; mark = "skip"; next }
        /^```/ { fenced = !fenced; runs = 0; if (/^```console/) begin(); next }
        # After another line, an indented line continues a list.
        !fenced && /^    / && (indented || blank) {
            if (!indented) begin(); indented = 1; if (runs) { print "succeeds"; print substr($0, 5) } next }
        !fenced { blank = $0 == ""; if (!blank) indented = 0; next }
        runs && /^\$ / { print "command"; print substr($0, 3); next }
        runs && /^> / { print "more"; print substr($0, 3); next }
        runs { print "output"; print }' "$1"
}

# Removes what differs between runs, and warnings of crictl and docker about themselves.
plain() {
    sed -E -e '/level=warning/d' -e '/^DEPRECATED: The legacy builder/,/^$/d' -e 's/\b[0-9a-f]{64}\b/ID/g; s/\b[0-9a-f]{12,13}\b/ID/g' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g; s/(Less than a|About a|[0-9]+) (second|minute)s?( ago)?/AGE/g' \
        -e 's/:[0-9]{5}\b/:PORT/g; s/[ \t]+/ /g; s/ $//'
}

# Makes a pattern for the right side of ==, in which only `…` is special.
pattern() { sed -e 's/[][\\*?(){}|!+@]/\\&/g' -e 's/…/*/g'; }

main "$@"
