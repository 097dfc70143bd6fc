#!/usr/bin/env bash
# Prints the licences of all crates in the program. Each text is printed once, after the names of its crates. Distributions of
# the program must include these notices.
#
# usage: licences.sh TARGET
set -euo pipefail

declare -A crates texts
while IFS='|' read -r crate licence; do
    name=${crate/ v/-}
    for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name"/{LICEN[CS]E,COPYING,UNLICENSE,NOTICE}*; do
        [ -f "$file" ] || continue
        sum=$(sha256sum "$file" | cut -d ' ' -f 1)
        texts[$sum]=$file
        [[ ${crates[$sum]:-} == *"$name ("* ]] || crates[$sum]+="$name ($licence)"$'\n'
    done
done < <(cargo tree --locked --target "$1" --edges normal,no-proc-macro --prefix none --no-dedupe --format '{p}|{l}' |
    sed 's/ ([^)]*)|/|/' | LC_ALL=C sort -u | grep -v '^dockbridge ')

cat <<'TEXT'
dockbridge is licensed under the Apache License 2.0. The program contains the crates below under their own licences, and
the GNU C library under the LGPL 2.1 or later: with the sources of dockbridge it can be linked with another one.
TEXT
for sum in $(printf '%s\n' "${!crates[@]}" | sort); do
    printf '\n\n---- %s' "${crates[$sum]//$'\n'/$'\n'     }" | sed '$d'
    printf '\n'
    cat "${texts[$sum]}"
done
