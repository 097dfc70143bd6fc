#!/usr/bin/env bash
# Tests the Debian packages as a new user would install them, in the machine of vm.sh: Debian 12 with its own engine, no
# compiler, no network. The steps are in tests/env/guest/packages.
#
# usage: packages.sh TARBALL CLIENT     (as root; the tarball of packaging/dist.sh, and the built example `client`)
set -euo pipefail

# shellcheck disable=SC1091,SC2154 # vm.sh sets what is used here
. "$(dirname "${BASH_SOURCE[0]}")/vm.sh"

packages() {
    local tarball client image
    [ $# = 2 ] || die "the tarball and the client are needed (see the head of this script)"
    [ "$(id -u)" = 0 ] || die "must be root: a root file system is made"
    tarball=$(realpath "$1") client=$(realpath "$2")
    install_missing
    image=$("$here/vm-image.sh")
    room=$(mktemp -d "$(dirname "$image")/packages.XXXXXX")
    trap clear_away EXIT
    trap 'exit 143' TERM INT HUP
    mkdir -p "$room/disk" "$room/try/old" "$room/try/new"
    # The same program under two versions, because this tests upgrades of packages.
    VERSION=0.0.1 "$here/../../packaging/deb.sh" "$tarball" "$room/try/old" >/dev/null
    VERSION=0.0.2 "$here/../../packaging/deb.sh" "$tarball" "$room/try/new" >/dev/null
    strip -o "$room/try/client" "$client"
    cp -a "$here/../fixtures/units" "$room/try/"
    ! command -v crictl >/dev/null || cp -L "$(command -v crictl)" "$room/try/crictl"
    printf 'exec %q %q\n' "$here/guest/packages" "$room/try" >"$room/disk/job"
    write_disk "$here" "$room/try"
    boot "$image" apparmor
    finish "$(dirname "$image")/last"
}

packages "$@"
