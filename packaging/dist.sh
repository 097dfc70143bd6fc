#!/usr/bin/env bash
# Builds the static program and makes dockbridge-VERSION-linux-ARCH.tar.gz from it, to be unpacked below /usr/local. Two
# builds of one commit are equal byte for byte: all times are that of the commit, paths of this machine are replaced, the
# owner is root, and files are sorted.
#
# usage: dist.sh [DIRECTORY]         the default directory is target/packages
#
#   ARCH                amd64 or arm64 (default: the architecture of this machine)
#   SOURCE_DATE_EPOCH   time of every file (default: that of the commit)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-target/packages}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
triple=$(rustc -vV | sed -n 's/^host: //p')
case ${ARCH:-$triple} in
    amd64 | x86_64-*) arch=amd64 machine=x86_64 ;;
    arm64 | aarch64-*) arch=arm64 machine=aarch64 ;;
    *) echo "dist: no packages for ${ARCH:-$triple}: the pause image is made for amd64 and arm64" >&2; exit 1 ;;
esac
cross=
if [[ $triple != "$machine"-* ]]; then
    [ "$arch" = arm64 ] || { echo "dist: packages for $arch can only be made on $arch" >&2; exit 1; }
    triple=aarch64-unknown-linux-gnu cross=packaging/cross.sh
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Separate from other builds, which have other flags.
built=$(realpath -m "${CARGO_TARGET_DIR:-target}/dist")
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8

# If two rules match, the later one applies. The build directory may be below the sources.
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
RUSTFLAGS+=" --remap-path-prefix=$PWD=/dockbridge --remap-path-prefix=$built=/target"
# With --target, the flags are not those of build scripts and macros.
RUSTFLAGS=$RUSTFLAGS $cross cargo build --release --locked --target "$triple" --target-dir "$built" --bin dockbridge

name=dockbridge-$version-linux-$arch
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
tree=$room/$name
examples=$tree/share/doc/dockbridge/examples
cargo run --quiet --locked --example documents -- "$tree/share"
install -D -m 755 "$built/$triple/release/dockbridge" "$tree/bin/dockbridge"
ln -s dockbridge "$tree/bin/dockbridge-runtime"
install -D -m 644 -t "$tree/lib/systemd/system" packaging/systemd/dockbridge.*
sed -i 's|/usr/bin/dockbridge|/usr/local/bin/dockbridge|' "$tree"/lib/systemd/system/*
install -D -m 644 -t "$examples/cri-docker" packaging/systemd/cri-docker.*
install -D -m 644 packaging/default "$examples/default"
install -D -m 644 packaging/cni/10-bridge.conflist "$examples/10-bridge.conflist"
install -D -m 644 docs/grafana/dockbridge.json "$examples/grafana-dashboard.json"
install -D -m 644 docs/prometheus/alerts.yaml "$examples/prometheus-alerts.yaml"
install -D -m 644 -t "$examples" packaging/examples/*
install -D -m 644 -t "$tree/share/doc/dockbridge" LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
# The pages have the same layout as in the repository, so that their links and pictures work.
for page in docs/*.md docs/{guides,decisions}/*.md docs/pictures/*.svg docs/grafana/* docs/prometheus/*; do
    install -D -m 644 "$page" "$tree/share/doc/dockbridge/$page"
done
packaging/links.sh "$tree/share/doc"
packaging/licences.sh "$triple" >"$tree/share/doc/dockbridge/LICENCES"

mkdir -p "$out"
rm -f "$out"/dockbridge-*-linux-"$arch".tar.gz
tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
    -C "$room" -c "$name" | gzip -9n >"$room/tarball"
mv "$room/tarball" "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz")
