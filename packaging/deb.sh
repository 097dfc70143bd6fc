#!/usr/bin/env bash
# Makes Debian packages from the tarball of dist.sh: dockbridge, and dockbridge-cri-dockerd, which puts it in cri-dockerd's
# place. Packages of the same tarball are equal byte for byte.
#
# usage: deb.sh TARBALL [DIRECTORY]     the default directory is that of the tarball
#
#   VERSION   version of the packages, for tests of upgrades (default: that of the tarball)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tarball=${1:?the tarball is missing, see the head of this script}
out=$(realpath "${2:-$(dirname "$tarball")}")
[[ $(basename "$tarball") =~ ^dockbridge-(.*)-linux-(.*)\.tar\.gz$ ]] || { echo "deb: $tarball has an unknown name" >&2; exit 1; }
# A pre-release is older than its release.
version=${VERSION:-${BASH_REMATCH[1]/-/\~}} arch=${BASH_REMATCH[2]}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
umask 022
tar -C "$room" --no-same-owner -xf "$tarball"
tree=$(echo "$room"/dockbridge-*)
SOURCE_DATE_EPOCH=$(stat -c %Y "$tree/bin/dockbridge")
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8

main() {
    program "$room/dockbridge"
    build dockbridge "$room/dockbridge"
    in_place_of_cri_dockerd "$room/cri-dockerd"
    build dockbridge-cri-dockerd "$room/cri-dockerd"
}

# program ROOT: copies the files of the tarball to the paths that Debian uses.
program() {
    local root=$1 examples=$1/usr/share/doc/dockbridge/examples
    mkdir -p "$root"/{etc/default,usr/lib}
    cp -a "$tree/bin" "$tree/share" "$root/usr/"
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    cp -a "$tree/lib/systemd" "$root/usr/lib/"
    sed -i 's|/usr/local/bin/|/usr/bin/|' "$root"/usr/lib/systemd/system/*
    mv "$examples/dockbridge.toml" "$root/etc/"
    mv "$examples/default" "$root/etc/default/dockbridge"
    # Debian has the text of this licence, and the file copyright names it.
    rm -r "$root/usr/share/doc/dockbridge/LICENSE" "$examples/cri-docker"
    sed -i 's|](LICENSE)|](copyright)|' "$root/usr/share/doc/dockbridge/README.md"
    install -m 644 "$here/deb/copyright" "$root/usr/share/doc/dockbridge/copyright"
    "$here/links.sh" "$root/usr/share/doc"
    # Pages have links to the changelog, so it is not compressed.
    gzip -9n "$root"/usr/share/man/*/* "$root/usr/share/doc/dockbridge/LICENCES"
}

# in_place_of_cri_dockerd ROOT
in_place_of_cri_dockerd() {
    local root=$1
    install -D -m 644 -t "$root/usr/lib/systemd/system" "$tree"/share/doc/dockbridge/examples/cri-docker/*
    mkdir -p "$root"/usr/{bin,share/man/man8}
    ln -s dockbridge "$root/usr/bin/cri-dockerd"
    ln -s dockbridge.8.gz "$root/usr/share/man/man8/cri-dockerd.8.gz"
}

# build PACKAGE ROOT
build() {
    local package=$1 root=$2 doc=$2/usr/share/doc/$1 script
    mkdir -p "$doc" "$root/DEBIAN"
    install -m 644 "$here/deb/copyright" "$doc/copyright"
    printf 'dockbridge (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in the package dockbridge.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^Maintainer: //p' "$here/deb/$package.control")" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
    [ ! -f "$here/deb/$package.overrides" ] || install -D -m 644 "$here/deb/$package.overrides" "$root/usr/share/lintian/overrides/$package"
    for script in postinst prerm postrm; do
        [ ! -f "$here/deb/$package.$script" ] || install -m 755 "$here/deb/$package.$script" "$root/DEBIAN/$script"
    done
    (cd "$root" && find etc -type f 2>/dev/null | sort | sed 's|^|/|') >"$root/DEBIAN/conffiles" || true
    [ -s "$root/DEBIAN/conffiles" ] || rm "$root/DEBIAN/conffiles"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    {
        sed "s/@VERSION@/$version/" "$here/deb/$package.control" | sed '/^Description:/,$d'
        printf 'Version: %s\nArchitecture: %s\nInstalled-Size: %s\n' "$version" "$arch" "$(installed_size "$root")"
        sed -n '/^Description:/,$p' "$here/deb/$package.control"
    } >"$root/DEBIAN/control"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${package}_${version}_$arch.deb" >/dev/null
    (cd "$out" && sha256sum "${package}_${version}_$arch.deb")
}

# installed_size ROOT: prints the size in KiB as dpkg counts it: each file rounded up, and 1 for everything else. The result
# does not depend on the file system.
installed_size() {
    find "$1" -path "$1/DEBIAN" -prune -o -printf '%y %s\n' | awk '{ size += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print size }'
}

main
