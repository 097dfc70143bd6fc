#!/usr/bin/env bash
# Builds the last commit twice, in two directories with different names, and fails unless tarball, packages and image are
# equal byte for byte. Takes about ten minutes on two processors.
#
# usage: dist-check.sh
#
#   ARCH   amd64 or arm64 (default: the architecture of this machine)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
room=$(mktemp -d -p "$(realpath -m "${CARGO_TARGET_DIR:-target}")" dist-check.XXXXXX)
trap 'rm -rf "$room"' EXIT
# Both builds use the same compiler, see cross.sh.
export DOCKBRIDGE_ENGINES=${DOCKBRIDGE_ENGINES:-$PWD/target/engines}
for copy in first the-second; do
    git clone --quiet --shared . "$room/$copy"
    (
        cd "$room/$copy"
        unset CARGO_TARGET_DIR SOURCE_DATE_EPOCH
        packaging/dist.sh "$room/$copy.out"
        packaging/deb.sh "$room/$copy.out"/*.tar.gz
        packaging/image.sh "$room/$copy.out"/*.tar.gz
        ! command -v rpmbuild >/dev/null || packaging/rpm.sh "$room/$copy.out"/*.tar.gz
        rm -rf "${room:?}/$copy"
    )
done
diff -r "$room/first.out" "$room/the-second.out"
echo "dist-check: two builds of $(git rev-parse --short HEAD) are equal byte for byte"
