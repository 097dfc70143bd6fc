#!/usr/bin/env bash
# Draws 90 sentences to check for plain English: three samples, each with ten sentences of the documents, ten messages and
# ten comments. The commit id is the seed, so a commit always gives the same samples. Read a sentence, write down what it
# means, then look at the code.
#
# usage: sentences.sh [commit]     (`make sentences`)
set -euo pipefail

commit=$(git rev-parse --verify "${1:-HEAD}^{commit}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git archive "$commit" | tar -x -C "$folder"
cd "$folder"

# Joins lines of one paragraph or comment, and splits them into sentences of at least four words, with file and line.
sentences() {
    awk -v kind="$1" '
        function flush(   whole, end) {
            while (text != "") {
                whole = kind == "messages" || !match(text, /[.!?][)"*`]* +[("*`]*([A-Z]|dockbridge)/)
                end = whole ? length(text) : RSTART
                print_one(substr(text, 1, end))
                text = substr(text, end + 1)
            }
        }
        function print_one(one) {
            sub(/^[)"*` ]*/, "", one)
            if (split(one, words, " ") >= 4) printf "%s:%d: %s\n", place, start, one
        }
        function add(more) { if (text == "") { place = FILENAME; start = FNR } text = text " " more }
        FNR == 1 { flush(); fence = 0 }
        kind == "docs" && /^ *```/ { flush(); fence = !fence; next }
        kind == "docs" && (fence || /^ *(#|<|$|!\[|\|[-|: ]*$)/) { flush(); next }
        kind == "docs" { if (/^ *(\||- |\* |[0-9]+\. )/) flush(); gsub(/ *\| */, " "); add($0); next }
        kind == "comments" && /^ *\/\// { sub(/^ *\/\/[\/!]? ?/, ""); if ($0 == "") flush(); else add($0); next }
        kind == "comments" { flush(); next }
        /^ *\/\// { next }
        # A text in quotes may continue behind a backslash at the end of a line.
        { line = line $0; if (sub(/\\$/, "", line)) next
          while (match(line, /"([^"\\]|\\.)*"/)) {
              add(substr(line, RSTART + 1, RLENGTH - 2)); flush(); line = substr(line, RSTART + RLENGTH) }
          line = "" }
        END { flush() }' "${@:2}"
}

mapfile -t pages < <(find ./*.md docs -name '*.md' | sort)
mapfile -t code < <(find src tests build.rs -name '*.rs' | sort)
mapfile -t shipped < <(printf '%s\n' "${code[@]}" | grep '^src' | grep -vE '/(tests|fuzz|fixtures?)(/|\.rs$)|_tests\.rs$')
sentences docs "${pages[@]}" >docs.found
sentences messages "${shipped[@]}" >messages.found
sentences comments "${code[@]}" >comments.found
for sample in 1 2 3; do
    for kind in docs messages comments; do
        printf '\nsample %d, %s\n\n' "$sample" "$kind"
        # 64 bytes for each draw, which depend only on the commit, the kind and the sample.
        bytes=$(printf '%s' "$commit $kind $sample" | sha512sum | grep -o '^[0-9a-f]*' | sed 's/../\\x&/g')
        shuf -n 10 --random-source=<(printf '%b' "$bytes") $kind.found
    done
done
