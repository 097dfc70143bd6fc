#!/usr/bin/env bash
# Makes an OCI image from the tarball of dist.sh: the static program and its licences, nothing else. `docker load` (20.10 and
# later) and tools for OCI layouts read the archive. Images of the same tarball are equal byte for byte.
#
# usage: image.sh TARBALL [DIRECTORY]     the default directory is that of the tarball
set -euo pipefail

tarball=${1:?the tarball is missing, see the head of this script}
out=$(realpath "${2:-$(dirname "$tarball")}")
[[ $(basename "$tarball") =~ ^dockbridge-(.*)-linux-(.*)\.tar\.gz$ ]] || { echo "image: $tarball has an unknown name" >&2; exit 1; }
version=${BASH_REMATCH[1]} arch=${BASH_REMATCH[2]}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
umask 022
mkdir -p "$room"/{tree,root,image/blobs/sha256}
tar -C "$room/tree" --no-same-owner --strip-components 1 -xf "$tarball"
install -D -m 755 "$room/tree/bin/dockbridge" "$room/root/usr/bin/dockbridge"
install -D -m 644 -t "$room/root/usr/share/doc/dockbridge" "$room"/tree/share/doc/dockbridge/{LICENSE,LICENCES}
moment=$(stat -c %Y "$room/tree/bin/dockbridge")

main() {
    local layer content config manifest
    pack "$room/root" >"$room/layer"
    content=$(sha256sum <"$room/layer" | cut -d ' ' -f 1)
    layer=$(gzip -9n <"$room/layer" | blob)
    config=$(blob <<END
{"created":"$(date -u -d "@$moment" +%FT%TZ)","architecture":"$arch","os":"linux","config":{"Entrypoint":["/usr/bin/dockbridge"],"Labels":{"org.opencontainers.image.title":"dockbridge","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$content"]}}
END
    )
    manifest=$(blob <<END
{"schemaVersion":2,"mediaType":"$(media manifest)","config":$(descriptor config "$config"),"layers":[$(descriptor layer "$layer")]}
END
    )
    cat >"$room/image/index.json" <<END
{"schemaVersion":2,"mediaType":"$(media index)","manifests":[{"annotations":{"io.containerd.image.name":"docker.io/library/dockbridge:$version","org.opencontainers.image.ref.name":"$version"},$(descriptor manifest "$manifest" | cut -c 2-)]}
END
    echo '{"imageLayoutVersion":"1.0.0"}' >"$room/image/oci-layout"
    # Engines before 25 read this instead.
    cat >"$room/image/manifest.json" <<END
[{"Config":"blobs/sha256/$config","RepoTags":["dockbridge:$version"],"Layers":["blobs/sha256/$layer"]}]
END
    pack "$room/image" >"$out/dockbridge-$version-image-$arch.tar"
    (cd "$out" && sha256sum "dockbridge-$version-image-$arch.tar")
}

pack() { tar --sort=name --format=gnu --mtime="@$moment" --owner=0 --group=0 --numeric-owner -C "$1" -c .; }

# Stores its input as a blob and prints the digest.
blob() {
    local digest
    cat >"$room/blob"
    digest=$(sha256sum <"$room/blob" | cut -d ' ' -f 1)
    mv "$room/blob" "$room/image/blobs/sha256/$digest"
    echo "$digest"
}

# descriptor KIND DIGEST
descriptor() {
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%s}' "$(media "$1")" "$2" "$(stat -c %s "$room/image/blobs/sha256/$2")"
}

media() {
    case $1 in
        layer) echo application/vnd.oci.image.layer.v1.tar+gzip ;;
        *) echo "application/vnd.oci.image.$1.v1+json" ;;
    esac
}

main
