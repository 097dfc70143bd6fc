#!/usr/bin/env bash
# Fails if a page below a folder has a link to a missing file. Packages contain the pages, but not all files of the
# repository.
#
# usage: links.sh FOLDER
set -euo pipefail

cd "${1:?the folder is missing, see the head of this script}"
failed=0
while IFS=: read -r page link; do
    target=${link#*](}
    target=${target%%[#)]*}
    # Links to a heading of the same page or to other sites are skipped.
    [[ -n $target && $target != *://* && $target != mailto:* ]] || continue
    [ -e "$(dirname "$page")/$target" ] || { echo "$page has a link to $target, which is not in the package" >&2; failed=1; }
done < <(find . -name '*.md' -exec awk '
    FNR == 1 { fenced = 0 }
    /^ *```/ { fenced = !fenced }
    fenced || /^    / { next }
    { gsub(/`[^`]*`/, ""); while (match($0, /\]\([^)]*\)/)) { print FILENAME ":" substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH) } }' {} +)
exit "$failed"
