#!/usr/bin/env bash
# Unpacks Docker engines of several Debian suites, and other programs that a test world runs, below target/engines.
#
# usage: engines.sh bookworm|trixie|sid|tools     prints the folder: a root tree with usr/bin, usr/sbin …
#        engines.sh fuzzer                        the same with LLVM's libFuzzer
#        engines.sh criu                          the same with CRIU, which knows kernels that Debian 12's does not
#        engines.sh rust-arm64                    the same with a Rust compiler that has the standard library for arm64
#        engines.sh mirror                        prints the Debian mirror that it would use
#
# Nothing is installed: packages are downloaded and unpacked, so no service starts and the user's engine is not replaced.
# The mirror is the one in this machine's apt sources.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${DOCKBRIDGE_ENGINES:-$here/../../target/engines}

main() {
    local name=${1:?usage: engines.sh bookworm|trixie|sid|tools|fuzzer|criu|rust-arm64|mirror}
    case $name in
        bookworm | trixie | sid) unpack "$name" "$name" docker.io docker-cli containerd runc libc6 libseccomp2 ;;
        patchelf) unpack patchelf bookworm patchelf ;;
        tools) unpack tools bookworm docker-registry busybox-static containernetworking-plugins ;;
        fuzzer) unpack fuzzer bookworm libclang-rt-19-dev ;;
        criu) unpack criu sid @criu ;;
        rust-arm64) unpack rust-arm64 sid rustc libstd-rust-dev:arm64 @libstd-rust-dev ;;
        mirror) mirror ;;
        *) die "unknown engine: $name" ;;
    esac
}

# unpack FOLDER SUITE PACKAGE…: fills the folder once, under a lock, and prints its path.
unpack() {
    local folder=$1 suite=$2 into
    shift 2
    mkdir -p "$cache"
    into=$(cd "$cache" && pwd)/$folder
    exec 8>"$cache/.$folder.lock"
    flock 8
    # A patched program contains the folder's path. If the folder was copied to another target, it is made again.
    if [ "$(cat "$into/.complete" 2>/dev/null)" != "$into" ]; then
        rm -rf "$into" "$into.apt"
        mkdir -p "$into" "$into.apt"
        download "$into.apt" "$suite" "$@" >&2
        for package in "$into.apt"/debs/*.deb; do dpkg-deb -x "$package" "$into"; done
        rm -rf "$into.apt"
        mend "$into" runc
        mend "$into" criu
        mend "$into" rustc
        printf '%s\n' "$into" >"$into/.complete"
    fi
    exec 8>&-
    printf '%s\n' "$into"
}

# mend FOLDER PROGRAM: if the program needs a newer libc than this machine has, the loader and libraries of its suite are
# written into the binary. Starting it through that loader does not work, because runc and CRIU execute themselves again.
mend() {
    local program loader libraries patchelf
    program=$(find "$1/usr/sbin" "$1/usr/bin" -name "$2" -type f 2>/dev/null | head -1) || true
    [ -n "$program" ] || return 0
    if "$program" --version >/dev/null 2>&1; then return 0; fi
    loader=$(find "$1" -name 'ld-linux*' | head -1)
    libraries=$(find "$1" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
    patchelf=$("$here/engines.sh" patchelf)/usr/bin/patchelf
    # A library's own search path has priority over that of the program.
    find "$1" -name 'libLLVM.so.*' -type f -exec "$patchelf" --remove-rpath {} +
    "$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$program"
    "$program" --version >&2
}

# download DIR SUITE PACKAGE…: downloads packages into DIR/debs, and for @PACKAGE also all packages that it depends on. A
# package may be that of another architecture, as libc6:arm64. All of apt's files are in DIR.
download() {
    local dir=$1 suite=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed= architectures package packages=()
    shift 2
    architectures=$(dpkg --print-architecture)$(printf '%s\n' "$@" | sed -n 's/.*:/,/p')
    [ -e "$keyring" ] && signed=" signed-by=$keyring"
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/debs"
    : >"$dir/status"
    printf 'deb [arch=%s%s] %s %s main\n' "$architectures" "$signed" "$(mirror)" "$suite" >"$dir/sources.list"
    # _apt cannot enter a folder below root's home.
    local options=(-q -o APT::Sandbox::User=root -o Dir::State::Lists="$dir/lists" -o Dir::State::status="$dir/status"
        -o Dir::Cache="$dir/cache" -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o Acquire::Languages=none
        -o APT::Architectures="$architectures")
    apt-get "${options[@]}" update
    for package in "$@"; do
        # Names of libraries have versions, which the suite changes at any time.
        case $package in
            @*) packages+=($(apt-cache "${options[@]}" depends --recurse --important "${package#@}" | grep '^[a-z]')) ;;
            *) packages+=("$package") ;;
        esac
    done
    (
        cd "$dir/debs"
        # Debian 12 has the docker command inside docker.io. One call for all packages, because apt reads its lists in each.
        apt-get "${options[@]}" download "${packages[@]}" ||
            { [[ " $* " = *" docker-cli "* ]] && apt-get "${options[@]}" download "${packages[@]/docker-cli/docker.io}"; }
    )
}

# Prints the first Debian mirror in this machine's apt sources, in the old or the new format.
mirror() {
    local uri
    # Usually one of the three patterns matches no file.
    uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        grep -v '^[[:space:]]*#' | grep -oE 'https?://[^] ]+/debian/?([[:space:]]|$)' | head -1 | tr -d '[:space:]') || true
    [ -n "$uri" ] || die "no Debian mirror in this machine's apt sources"
    printf '%s\n' "$uri"
}

die() {
    printf 'engines: %s\n' "$*" >&2
    exit 1
}

main "$@"
