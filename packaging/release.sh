#!/usr/bin/env bash
# Puts everything that belongs to a release into one folder, with checksums, the list of components (SBOM) and the notes,
# and prints the commands that sign and publish it. These are the owners' step: nothing is uploaded.
#
# usage: release.sh PACKAGES FOLDER CARGO-CYCLONEDX
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
packages=$(realpath "$1") folder=$(realpath -m "$2") cyclonedx=$3
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
triple=$(rustc -vV | sed -n 's/^host: //p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf "$folder" && mkdir -p "$folder"
# Named, so that a package of an earlier version cannot get in.
for file in "$packages/dockbridge-$version-linux-"*.tar.gz "$packages/dockbridge-$version-image-"*.tar \
    "$packages"/dockbridge{,-cri-dockerd}_"${version/-/\~}"_*.deb "$packages"/dockbridge{,-cri-dockerd}-"${version/-/\~}"-*.rpm; do
    # RPM packages are made only where rpmbuild is.
    [ -e "$file" ] || [[ $file == *.rpm ]] || { echo "release: $file is missing" >&2; exit 1; }
    [ ! -e "$file" ] || cp "$file" "$folder/"
done
"$cyclonedx" cyclonedx --quiet --format json --target "$triple" --no-build-deps --override-filename "dockbridge-$version.cdx"
# Without the directory it was built in.
sed "s|path+file://$PWD|path+file:///dockbridge|g" "dockbridge-$version.cdx.json" >"$folder/dockbridge-$version.cdx.json"
rm "dockbridge-$version.cdx.json"
awk -v heading="## $version" 'index($0, heading) == 1 { own = 1; next } /^## / { own = 0 } own' CHANGELOG.md >"$folder/NOTES.md"
(cd "$folder" && sha256sum -- * >SHA256SUMS)
cat <<TEXT

The release is in $folder:
$(cd "$folder" && ls -l -- * | awk '{ printf "  %9d  %s\n", $5, $9 }')

The owners sign and publish it:

  cd $folder
  gpg --armor --detach-sign SHA256SUMS
  git -C $PWD tag --sign v$version $(git rev-parse HEAD) --message "dockbridge $version"
  git -C $PWD push origin v$version
  # Where the repository is on GitHub; elsewhere, upload the same files to the page of the release.
  gh release create v$version --title "dockbridge $version" --notes-file NOTES.md $(cd "$folder" && echo *) SHA256SUMS.asc
  # The image, to a registry of the owners.
  docker load -i $(cd "$folder" && echo *-image-*.tar)
  docker tag dockbridge:$version REGISTRY/dockbridge:$version && docker push REGISTRY/dockbridge:$version

Then name the place in docs/install.md.
TEXT
