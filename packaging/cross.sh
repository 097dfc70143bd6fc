#!/usr/bin/env bash
# Runs a command, such as cargo, with a linker for arm64, and with Debian's Rust compiler if the installed one has no standard
# library for arm64.
#
# usage: cross.sh COMMAND…
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
triple=aarch64-unknown-linux-gnu
if [ ! -d "$(rustc --print target-libdir --target "$triple")" ]; then
    RUSTC=$("$here/../tests/env/engines.sh" rust-arm64)/usr/bin/rustc
    export RUSTC
fi
# On arm64, cargo's own choice also links build scripts.
[ "$(uname -m)" = aarch64 ] || export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
exec "$@"
