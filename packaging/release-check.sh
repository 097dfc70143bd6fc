#!/usr/bin/env bash
# Fails unless the committed state can be released as the version in Cargo.toml: no uncommitted changes, and the same version
# in all files. `make release-check` also runs the tests.
#
# usage: release-check.sh
set -euo pipefail

cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
failed=0
complain() { printf 'release: %s\n' "$*" >&2; failed=1; }

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
changed=$(git status --porcelain)
[ -z "$changed" ] || complain "the tree has changes that are not committed"
locked=$(sed -n '/^name = "dockbridge"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock)
[ "$locked" = "$version" ] || complain "Cargo.lock has version $locked, Cargo.toml $version"
newest=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
[ "$newest" = "$version" ] || complain "the newest section of CHANGELOG.md is \"$newest\", not \"$version\""
# The documents contain names of packages with the version.
while read -r name; do
    [[ $name == *[-_:]"$version" || $name == *[-_]"$version"[-_]* ]] || complain "a page names $name, and the version is $version"
done < <(grep -rhoE 'dockbridge(_[0-9][0-9a-z.~-]*_[a-z0-9]+\.deb|-[0-9][0-9a-z.-]*-(linux|image)-[a-z0-9]+|:[0-9][0-9a-z.-]*)' README.md docs | sort -u)
if tagged=$(git rev-parse --quiet --verify "v$version^{commit}"); then
    [ "$tagged" = "$(git rev-parse HEAD)" ] || complain "the tag v$version is on another commit: raise the version"
fi
! grep -q '^> \*\*Owners:\*\*' SECURITY.md || echo "release: SECURITY.md has no address for reports yet. The owners must add one before they publish."
! grep -q '^Maintainer:.*\.example>$' packaging/deb/*.control || echo "release: the packages have no Maintainer and Homepage yet. The owners must add them before they publish."
[ "$failed" = 0 ] && echo "release: $(git rev-parse --short HEAD) is version $version in all files"
exit "$failed"
