#!/usr/bin/env bash
# Fails if a commit message breaks a rule of CONTRIBUTING.md: a subject of more than 72 characters or with a semicolon,
# or no body. Merges are excepted.
#
# usage: commits.sh [range]     (`make check`)
#
# The rules are from after 3cde086. Four commits since then break them and stay as they are: 980687a9 (74 characters),
# af24cfbb, eb501c02 and 0c660cef (no body). So the first commit that is checked is the one after 0c660cef.
set -euo pipefail

last_unchecked=0c660cefe0e9f54f76ea0b188b800129c5ba24d9
range=${1:-$last_unchecked..HEAD}
export LC_ALL=C.UTF-8

# A tarball has no history, and a shallow clone not all of it.
if ! git rev-parse --quiet --verify "${range%%..*}^{commit}" >/dev/null 2>&1; then
    echo "commit messages are not checked: ${range%%..*} is not in this clone"
    exit 0
fi
failed=0
while read -r commit; do
    subject=$(git log -1 --format=%s "$commit")
    complaints=()
    [ ${#subject} -le 72 ] || complaints+=("the subject has ${#subject} characters, 72 are allowed")
    [[ $subject != *';'* ]] || complaints+=("the subject has a semicolon")
    [ -n "$(git log -1 --format=%b "$commit")" ] || complaints+=("there is no body that says why")
    for complaint in "${complaints[@]}"; do
        printf '%.8s %s: %s\n' "$commit" "$subject" "$complaint" >&2
        failed=1
    done
done < <(git rev-list --no-merges "$range")
exit "$failed"
