#!/usr/bin/env bash
# Counts the shipped lines of src at a commit for each module, without tests and fuzz targets: all lines, and lines of code
# (neither blank nor a comment).
#
# usage: lines.sh [commit]     (`make lines`)
set -euo pipefail

commit=${1:-HEAD}
git ls-tree -r --name-only "$commit" src | grep '\.rs$' |
    grep -vE '/(tests|fuzz|fixtures)/|/(tests|fuzz|fixture|fixtures)\.rs$|_tests\.rs$' |
    while IFS= read -r file; do
        module=${file#src/}
        [ "$module" = "${module#*/}" ] && module=. || module=${module%%/*}
        git show "$commit:$file" | awk -v module="$module" '
            /^ *#\[cfg\(test\)\]/ { test = 1; next }            # the next item is a test
            test == 1 && /^ *mod .*\{$/ { test = 2; next }
            test == 1 { if (!/^ *#/ && /[;}]$/) test = 0; next }
            test == 2 { if (/^}/) test = 0; next }
            { all++ }
            !/^ *(\/\/.*)?$/ { code++ }
            END { print module, code + 0, all + 0 }'
    done |
    awk '{ code[$1] += $2; all[$1] += $3; codes += $2; alls += $3 }
        END { for (module in all) printf "%-16s %7d code %7d all\n", module, code[module], all[module] | "sort"
            close("sort"); printf "%-16s %7d code %7d all\n", "sum", codes, alls }'
