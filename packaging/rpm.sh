#!/usr/bin/env bash
# Makes RPM packages from the tarball of dist.sh: dockbridge, and dockbridge-cri-dockerd. Needs rpmbuild.
#
# usage: rpm.sh TARBALL [DIRECTORY]     the default directory is that of the tarball
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tarball=$(realpath "${1:?the tarball is missing, see the head of this script}")
out=$(realpath "${2:-$(dirname "$tarball")}")
command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is missing: install rpm-build, on Debian rpm" >&2; exit 1; }
[[ $(basename "$tarball") =~ ^dockbridge-(.*)-linux-(.*)\.tar\.gz$ ]] || { echo "rpm: $tarball has an unknown name" >&2; exit 1; }
# A pre-release is older than its release.
version=${VERSION:-${BASH_REMATCH[1]/-/\~}}
case ${BASH_REMATCH[2]} in amd64) arch=x86_64 ;; arm64) arch=aarch64 ;; esac
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
tar -C "$room" --no-same-owner -xf "$tarball"
SOURCE_DATE_EPOCH=$(stat -c %Y "$room"/dockbridge-*/bin/dockbridge)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
# Host and time of the build are not recorded in the packages, and this machine's settings for stripping and compression do
# not apply.
rpmbuild --quiet -bb --target "$arch-linux" \
    --define "_topdir $room/rpm" --define "_rpmdir $room/out" --define "_buildhost packages" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    --define "build_mtime_policy clamp_to_source_date_epoch" \
    --define "_binary_payload w9.gzdio" --define "_build_id_links none" --define "debug_package %{nil}" \
    --define "__os_install_post %{nil}" \
    --define "version_of_tarball $version" --define "tree $(echo "$room"/dockbridge-*)" \
    "$here/rpm/dockbridge.spec"
mv "$room"/out/*/*.rpm "$out/"
(cd "$out" && sha256sum ./*.rpm)
