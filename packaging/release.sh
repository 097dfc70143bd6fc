#!/usr/bin/env bash
# Builds the last commit in a clone and puts all files of its release into one folder, with checksums, the list of components
# (SBOM) and the notes. Then prints the commands with which the owners sign and publish them. Nothing is uploaded.
#
# usage: release.sh FOLDER CARGO-CYCLONEDX
#
#   ARCH   amd64 or arm64 (default: the architecture of this machine)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
packaging/release-check.sh
folder=$(realpath -m "$1") cyclonedx=$(realpath "$2") commit=$(git rev-parse HEAD) sources=$PWD
room=$(mktemp -d -p "$(mkdir -p target && realpath target)" release.XXXXXX)
trap 'rm -rf "$room"' EXIT
rm -rf "$folder"
mkdir -p "$folder"
git clone --quiet --shared . "$room/dockbridge"
cd "$room/dockbridge"
unset CARGO_TARGET_DIR
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
packaging/dist.sh "$folder"
packaging/deb.sh "$folder"/*.tar.gz
packaging/image.sh "$folder"/*.tar.gz
! command -v rpmbuild >/dev/null || packaging/rpm.sh "$folder"/*.tar.gz
target=$(rustc -vV | sed -n 's/^host: //p')
[ "${ARCH:-}" != arm64 ] || target=aarch64-unknown-linux-gnu
"$cyclonedx" cyclonedx --quiet --format json --target "$target" --no-build-deps --override-filename components
# Removes the path of the build directory.
sed 's|path+file://[^"#]*|path+file:///dockbridge|g' components.json >"$folder/dockbridge-$version.cdx.json"
awk -v version="$version" '/^## / { own = $2 == version; next } own' CHANGELOG.md >"$folder/NOTES.md"
cd "$folder"
sha256sum -- * >SHA256SUMS
cat <<TEXT

The release is in $folder:
$(ls -l -- * | awk '{ printf "  %9d  %s\n", $5, $9 }')

The owners sign and publish it:

  cd '$folder'
  gpg --armor --detach-sign SHA256SUMS
  git -C '$sources' tag --sign v$version $commit --message "dockbridge $version"
  git -C '$sources' push origin v$version
  # Where the repository is on GitHub; elsewhere, upload the same files to the page of the release.
  gh release create v$version --title "dockbridge $version" --notes-file NOTES.md$([[ $version != *-* ]] || echo ' --prerelease') $(echo *) SHA256SUMS.asc
  # The image, to a registry of the owners.
  docker load -i $(echo *-image-*.tar)
  docker tag dockbridge:$version REGISTRY/dockbridge:$version && docker push REGISTRY/dockbridge:$version

Then name the place in docs/install.md.
TEXT
