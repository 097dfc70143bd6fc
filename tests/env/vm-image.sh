#!/usr/bin/env bash
# Makes what the virtual machine of vm.sh starts from, once per recipe, and prints its folder:
#   kernel, initramfs   Debian's cloud kernel; a busybox that loads the root disk's drivers
#   root.img            Debian 12 with systemd, AppArmor, SELinux's policy, an engine and the world's tools; never written to
#
# usage: vm-image.sh       (as root)
#
# Everything comes from the Debian mirror this machine's own apt sources name. The folder is below target/vm and is
# made again when a file of the recipe changes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${DOCKBRIDGE_VM:-$here/../../target/vm}
recipe=("$here/vm-image.sh" "$here/guest/"{init,dockbridge-guest.service,containers.cil})
# systemd and what it needs to hold containers; engine, registry, plugins; what world.sh and the stories call.
packages=systemd,systemd-sysv,dbus,kmod,apparmor,docker.io,docker-registry,containernetworking-plugins,busybox-static
packages+=,iproute2,iptables,curl,procps,ca-certificates
# The policy and its tools, for the guest that is started with SELinux in AppArmor's place.
packages+=,selinux-policy-default,policycoreutils

main() {
    local wanted into
    wanted=$(cat "${recipe[@]}" | sha256sum | cut -c 1-16)
    mkdir -p "$cache"
    into=$(cd "$cache" && pwd)/image
    exec 8>"$cache/.image.lock"
    flock 8
    if [ "$(cat "$into/recipe" 2>/dev/null)" != "$wanted" ]; then
        rm -rf --one-file-system "$into"
        mkdir -p "$into"
        make_image "$into" >"$into/log" 2>&1 || { tail -n 30 "$into/log" >&2; die "the image was not made, see $into/log"; }
        echo "$wanted" >"$into/recipe"
    fi
    printf '%s\n' "$into"
}

# make_image FOLDER
make_image() {
    local into=$1 root=$1/root version
    debootstrap --variant=minbase --include="$packages" bookworm "$root" "$("$here/engines.sh" mirror)" || return
    add_kernel "$root" || return
    version=$(basename "$root"/lib/modules/*)
    mv "$root/boot/vmlinuz-$version" "$into/kernel" || return
    make_initramfs "$root" "$version" "$into" || return
    settle "$root" || return
    label "$root" || return
    mke2fs -q -t ext4 -E root_owner=0:0 -d "$root" "$into/root.img" 4G || return
    rm -rf --one-file-system "$root"
}

# The package's modules without its scripts, which would make Debian's own, slow initramfs.
add_kernel() {
    chroot "$1" bash -euc '
        apt-get update -q
        mkdir /tmp/kernel
        cd /tmp/kernel
        apt-get download "$(apt-cache depends linux-image-cloud-amd64 | sed -n "s/.*Depends: \(linux-image-6.*\)/\1/p")"
        # Not onto the root: its /lib is a link, which the package would make a folder.
        dpkg-deb -x linux-image-*.deb .
        mv lib/modules /usr/lib/modules
        mv boot/vmlinuz-* /boot/
        rm -r /tmp/kernel
        depmod "$(basename /lib/modules/*)"'
}

# make_initramfs ROOT VERSION FOLDER
make_initramfs() {
    local root=$1 tree=$3/initramfs.d module
    mkdir -p "$tree"/{bin,dev,root,modules}
    cp "$root/bin/busybox" "$tree/bin/busybox"
    install -m 755 "$here/guest/init" "$tree/init"
    for module in virtio_pci virtio_blk ext4; do
        chroot "$root" modprobe --show-depends --set-version "$2" "$module" || return
    done | sed -n 's/^insmod //p' | awk '!seen[$0]++' >"$tree/needed"
    [ -s "$tree/needed" ] || return
    while read -r module; do
        cp "$root$module" "$tree/modules/" || return
        basename "$module"
    done <"$tree/needed" >"$tree/modules/order"
    (cd "$tree" && find . | "$tree/bin/busybox" cpio -o -H newc) >"$3/initramfs"
    rm -rf "$tree"
}

# Nothing but the one service starts; nothing but loopback is there to ask for names.
settle() {
    local root=$1
    install -m 644 "$here/guest/dockbridge-guest.service" "$root/etc/systemd/system/"
    rm -f "$root"/etc/systemd/system/*.wants/{docker.service,docker.socket,containerd.service,docker-registry.service,apparmor.service}
    rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}
    mkdir -p "$root/payload"
    echo dockbridge-guest >"$root/etc/hostname"
    printf '127.0.0.1 localhost dockbridge-guest\n' >"$root/etc/hosts"
    rm -f "$root/etc/resolv.conf"
    echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
    # world.sh takes a whole machine for itself only where this file says it may.
    echo 'made by tests/env/vm-image.sh' >"$root/etc/dockbridge-guest"
}

# Files as the policy wants them, so that the first start has nothing to label. Permissive: what a container may do is
# the policy's affair, which label it gets is ours. The tools go by /proc; its mount ends with the namespace.
label() {
    printf 'SELINUX=permissive\nSELINUXTYPE=default\n' >"$1/etc/selinux/config"
    cp "$here/guest/containers.cil" "$1/tmp/"
    unshare --mount chroot "$1" sh -euc '
        mount -t proc proc /proc
        semodule -n -i /tmp/containers.cil
        rm /tmp/containers.cil
        setfiles -F -e /proc /etc/selinux/default/contexts/files/file_contexts /'
}

die() {
    printf 'vm-image: %s\n' "$*" >&2
    exit 1
}

main
