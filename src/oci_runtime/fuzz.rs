//! Targets of `make fuzz`: a bundle's `config.json` with edits, and container checkpoints for a restore.

#![allow(clippy::expect_used, reason = "a fuzz target fails by panicking")]

use std::{
    fs,
    io::{self, Cursor, Read as _},
    iter,
    path::Path,
};

use flate2::{Compression, read::GzEncoder};
use serde_json::Value;
use tar::Archive;

use super::{
    edit::{self, Mounted},
    restore::{
        archive::{Contents, GZIP, check_bounds, decompressed},
        config::Config,
        fit::Target,
        images::Images,
        layer,
    },
};
use crate::{
    host::root_files::RootFiles,
    model::{oci_edits::OciEdits, restore::IMAGES},
};

/// Applies edits to a document; the input has a NUL between the two. If the edits are applied, the result must be
/// JSON, and top-level fields that the edits do not name must be unchanged, except `mounts` and `linux`.
pub(crate) fn edited(bytes: &[u8]) {
    let (document, edits) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(0));
    let edits = edits.strip_prefix(&[0]).unwrap_or(edits);
    let Ok(before) = serde_json::from_slice::<Value>(document) else { return };
    let Ok(edits) = serde_json::from_slice::<OciEdits>(edits) else { return };
    let mut after = before.clone();
    let _ = edit::mapped_mounts(&before, &edits);
    match edit::edit(&mut after, &edits, &Mounted::default()) {
        Ok(()) => {
            if edits.is_empty() {
                assert_eq!(before, after);
            }
            let named = edits.edits.iter().filter_map(|edit| edit.keys().first().copied());
            let known: Vec<&str> = named.chain(["mounts", "linux"]).collect();
            for (key, value) in before.as_object().into_iter().flatten() {
                assert!(known.contains(&key.as_str()) || after.get(key) == Some(value), "{key}");
            }
            let read = serde_json::from_str::<Value>(&after.to_string());
            assert!(read.is_ok(), "what is written is JSON");
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

/// Unpacks the archive of a container checkpoint, whose contents may have at most twice the archive's size. Also
/// applies the archive as changed files. If it was not compressed, its compressed form must give the same result.
pub(crate) fn archive(bytes: &[u8]) {
    let place = std::env::temp_dir().join(format!("dockbridge-fuzz-tar-{}", std::process::id()));
    let (unpacked, root) = (place.join("unpacked"), place.join("root"));
    fs::create_dir_all(unpacked.join(IMAGES)).expect("a directory is made");
    fs::create_dir_all(&root).expect("a directory is made");
    let mut archive = Cursor::new(bytes);
    if let Ok(contents) = Contents::find(&mut archive) {
        assert!(contents.size() <= (bytes.len() as u64).saturating_mul(2), "more than there is");
        let _ = contents.documents(&mut archive);
        let _ = contents.unpack(&mut archive, (&unpacked, SPACE), &|| false);
    }
    let first = apply(bytes, &root).map_err(|error| error.to_string());
    if !bytes.starts_with(&GZIP) {
        let again = apply(&compressed(bytes), &root).map_err(|error| error.to_string());
        assert_eq!(first, again, "the same files");
    }
    fs::remove_dir_all(place).expect("the directory is removed");
}

/// Applies changed files as a restore does. The sizes of files that pass the check must not add up to more than its
/// limit.
fn apply(archive: &[u8], root: &Path) -> io::Result<()> {
    let mut plain = Vec::new();
    decompressed(archive)?.take(SPACE).read_to_end(&mut plain)?;
    check_bounds(&plain[..], SPACE)?;
    let mut files = Archive::new(&plain[..]);
    let sizes = files.entries()?.map_while(|entry| Some(entry.ok()?.size()));
    assert!(sizes.sum::<u64>() <= SPACE, "more than was checked");
    layer::apply(&RootFiles::open(root)?, iter::once(&plain[..]), &[])
}

/// Keeps the bytes as they are inside the gzip format, so that the fuzzer can still compare them.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let read = GzEncoder::new(bytes, Compression::none()).read_to_end(&mut packed);
    read.expect("bytes in memory are read");
    packed
}

/// Checks CRIU's images against a `config.json`. The input has the `config.json`, a NUL, and for each image the index
/// of its name in [`NAMES`], two bytes of length, and the content. If the archive of a tmpfs is not compressed, this
/// function compresses it. Images that the check has adapted must pass it again.
pub(crate) fn images(bytes: &[u8]) {
    let (config, mut rest) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(0));
    let Ok(config) = serde_json::from_slice::<Config>(config) else { return };
    let mut images = Images::default();
    rest = rest.strip_prefix(&[0]).unwrap_or(rest);
    while let [name, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (image, next) = after.split_at(length);
        if let Some(name) = NAMES.get(usize::from(*name)) {
            let is_plain = name.ends_with(".tar.gz.img") && !image.starts_with(&GZIP);
            let image = if is_plain { compressed(image) } else { image.to_vec() };
            images.contents.insert((*name).to_owned(), image);
        }
        rest = next;
    }
    let exists = |path: &str| path.len().is_multiple_of(2);
    let target = Target {
        config: &config,
        limits: &[1 << 20; 16],
        filter: Some(b"8 bytes."),
        exists: &exists,
    };
    if images.fit(&target).is_ok() {
        assert!(images.fit(&target).is_ok(), "what fits fits again");
    }
}

const SPACE: u64 = 1 << 20;
const NAMES: [&str; 16] = [
    "inventory.img",
    "pstree.img",
    "core-1.img",
    "core-2.img",
    "ids-1.img",
    "ids-2.img",
    "files.img",
    "mountpoints-3.img",
    "netns-4.img",
    "utsns-5.img",
    "seccomp.img",
    "descriptors.json",
    "mm-1.img",
    "remap-fpath.img",
    "ghost-file-6.img",
    "tmpfs-dev-7.tar.gz.img",
];
