//! The pause image as an archive that an engine can load. The archive describes the same blobs twice: in
//! `manifest.json` for engines with graph drivers, and as an OCI layout for containerd's image store.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    elf::{self, Machine},
    ustar,
};

/// The archive of the pause image for this host's architecture, for `POST /images/load`. For one architecture and one
/// tag, the bytes are always the same, and the image's id depends only on the kind of image store.
pub fn archive() -> Bytes {
    archive_for(Machine::host())
}

/// Whether an image id is that of the built-in pause image: with a graph driver the digest of the configuration, in
/// containerd's image store the digest of the manifest.
pub fn is_of(id: &str) -> bool {
    static IDS: LazyLock<[String; 2]> = LazyLock::new(|| {
        let (_, config, manifest) = blobs(Machine::host());
        [config.digest(), manifest.digest()]
    });
    IDS.iter().any(|own| own == id)
}

/// The archive of the pause image for a given architecture.
pub fn archive_for(machine: Machine) -> Bytes {
    let (layer, config, manifest) = blobs(machine);
    let docker_manifest = json!([{
        "Config": config.path(), "RepoTags": [reference()], "Layers": [layer.path()],
    }]);
    let descriptions = [
        ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
        ("index.json", index(machine, &manifest)),
        ("manifest.json", docker_manifest),
    ];
    let blobs = [&layer, &config, &manifest].map(|blob| (blob.path(), blob.content.clone()));
    let files = descriptions.map(|(name, value)| (name.to_owned(), value.to_string().into()));
    let files: Vec<_> = blobs.into_iter().chain(files).collect();
    ustar::archive(files.iter().map(|(name, content)| (&**name, 0o644, &**content))).into()
}

fn blobs(machine: Machine) -> (Blob, Blob, Blob) {
    let layer = Blob::new(ustar::archive([("pause", 0o755, &*elf::program(machine))]));
    let config = Blob::json(&config(machine, &layer));
    let manifest = Blob::json(&manifest(&config, &layer));
    (layer, config, manifest)
}

/// Name of the pause image in the engine. The tag must change whenever the image changes.
pub const fn reference() -> &'static str {
    "dockbridge/pause:2"
}

/// A blob of the image, which other parts of the archive name by its digest.
struct Blob {
    content: Vec<u8>,
    sha256: String,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        Self { sha256: hex::encode(Sha256::digest(&content)), content }
    }

    fn json(value: &Value) -> Self {
        Self::new(value.to_string().into())
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.sha256)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.sha256)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest(), "size": self.content.len() })
    }
}

/// The image configuration. The configuration names no user, so that the pause process runs as root unless the pod
/// requests another user: dockbridge can open the namespaces of a root process even without CAP_SYS_PTRACE.
fn config(machine: Machine, layer: &Blob) -> Value {
    json!({
        "architecture": machine.architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "Entrypoint": ["/pause"],
            "Labels": {
                "org.opencontainers.image.title": "dockbridge pause",
                "org.opencontainers.image.description":
                    "holds a pod's namespaces; built into dockbridge",
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer.digest()] },
        "history": [{ "created": CREATED, "created_by": "dockbridge" }],
    })
}

fn manifest(config: &Blob, layer: &Blob) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    })
}

/// The index of the OCI layout. containerd reads the first annotation, and other tools read the second.
fn index(machine: Machine, manifest: &Blob) -> Value {
    let mut descriptor = manifest.descriptor(MANIFEST_TYPE);
    let tag = reference().rsplit_once(':').map(|(_, tag)| tag);
    let details = json!({
        "platform": { "architecture": machine.architecture, "os": "linux" },
        "annotations": {
            "io.containerd.image.name": format!("docker.io/{}", reference()),
            "org.opencontainers.image.ref.name": tag,
        },
    });
    if let (Value::Object(into), Value::Object(details)) = (&mut descriptor, details) {
        into.extend(details);
    }
    json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [descriptor] })
}

/// Fixed so that the image's id does not depend on the time of the build.
const CREATED: &str = "1970-01-01T00:00:00Z";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
