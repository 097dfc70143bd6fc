//! `create`: mounts what the edits need, and edits the bundle's `config.json`.

use std::{
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    directory::EditsDirectory,
    edit::{self, Mounted},
    error::OciRuntimeError,
};
use crate::{
    host::{
        error::{HostError, OrCannot as _},
        file::{self, Durability, Readers},
        id_map::{self, Overlay},
        namespaces::{IdMaps, NamespaceHolder},
    },
    model::{
        oci_edits::{MappedMount, OciEdits, REQUIRED},
        user_namespace::IdMappings,
    },
};

/// Prepares the bundle of a container. Returns whether something was mounted for it, which must be
/// unmounted when the create fails.
///
/// # Errors
/// The edits are missing although they are required, do not match the document, or cannot be done. Then
/// nothing is mounted.
pub fn prepare(
    directory: &EditsDirectory,
    id: &str,
    bundle: &Path,
) -> Result<bool, OciRuntimeError> {
    let path = bundle.join("config.json");
    let edits = directory.read(id)?;
    let Some(bytes) = file::read_if_present(&path, MAX_CONFIG)? else {
        // The runtime will report the error.
        return Ok(false);
    };
    let Some(edits) = edits else {
        refuse_without_edits(directory, id, &bytes)?;
        return Ok(false);
    };
    let malformed = |e: serde_json::Error| OciRuntimeError::Malformed {
        path: path.clone(),
        reason: e.to_string(),
    };
    let mut document: Value = serde_json::from_slice(&bytes).map_err(malformed)?;
    // A killed runtime may have left mounts.
    directory.unmount(id)?;
    let done = mount(directory, id, bundle, &document, &edits).and_then(|mounted| {
        edit::edit(&mut document, &edits, &mounted)?;
        let text = serde_json::to_vec(&document).map_err(malformed)?;
        file::replace_for(readers(bundle, &edits)?, &path, &text, Durability::Written)?;
        Ok(mounted != Mounted::default())
    });
    if done.is_err() {
        // The first error is reported. The next create or the removal unmounts what is left.
        let _ = directory.unmount(id);
    }
    done
}

/// Who may read `config.json`. With a user namespace also the pod's root, because hooks such as NVIDIA's run as
/// the pod's root. containerd does the same for user namespaces that it knows.
fn readers(bundle: &Path, edits: &OciEdits) -> Result<Readers, HostError> {
    let Some(users) = &edits.users else { return Ok(Readers::Owner) };
    file::ensure_passable_by(bundle, Some(users.gids.host))?;
    Ok(Readers::Everyone)
}

/// Most containers have no edits, so the document is parsed only if it contains the annotation's text.
fn refuse_without_edits(
    directory: &EditsDirectory,
    id: &str,
    bytes: &[u8],
) -> Result<(), OciRuntimeError> {
    if memchr::memmem::find(bytes, REQUIRED.as_bytes()).is_none() {
        return Ok(());
    }
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if document.get("annotations").and_then(|all| all.get(REQUIRED)).is_some() {
        return Err(OciRuntimeError::NoEdits { id: id.to_owned(), path: directory.file(id) });
    }
    Ok(())
}

fn mount(
    directory: &EditsDirectory,
    id: &str,
    bundle: &Path,
    document: &Value,
    edits: &OciEdits,
) -> Result<Mounted, OciRuntimeError> {
    let mut mounted = Mounted::default();
    if let Some(users) = &edits.users {
        let root = edit::root_path(document)
            .ok_or_else(|| OciRuntimeError::Edit("the field root.path is missing".to_owned()))?;
        let target = directory.of(id).join(super::directory::ROOT);
        mount_root(&bundle.join(root), &target, users)?;
        mounted.root = Some(target);
    }
    for (index, source, at) in edit::mapped_mounts(document, edits) {
        let Some(mapped) = edits.mapped_mounts.get(at) else { continue };
        let target = directory.mount_point(id, index)?;
        let source = Path::new(source);
        match mount_volume(source, &target, mapped) {
            Ok(()) => {}
            Err(_) if mapped.is_implicit => {
                id_map::unmount(&target)?;
                if !mapped.without_devices {
                    continue;
                }
                id_map::mount_without_devices(source, &target, None)?;
            }
            Err(error) => return Err(error),
        }
        mounted.sources.push((index, target));
    }
    Ok(mounted)
}

fn mount_root(engine: &Path, target: &Path, mappings: &IdMappings) -> Result<(), OciRuntimeError> {
    let engine = fs::canonicalize(engine).or_cannot("find", engine)?;
    let ids = user_namespace(mappings)?;
    match Overlay::at(&mount_table()?, &engine) {
        Some(overlay) => {
            let root = (mappings.uids.host, mappings.gids.host);
            overlay.mount_mapped(target, ids.as_fd(), root).map_err(|e| {
                explained(e, "the root file system", "id-mapped overlays need Linux 5.19")
            })
        }
        None => id_map::mount_without_devices(&engine, target, Some(ids.as_fd()))
            .map_err(|e| explained(e, "the root file system", "use the storage driver overlay2")),
    }
}

/// Mounts a volume again with mapped ids. An image volume is an overlay. If the engine gave it an upper
/// directory, that is never written, so it is left out. Another overlay with an upper directory is a volume
/// of the host: it would be damaged if mounted twice, and a read-only one could be written.
fn mount_volume(source: &Path, target: &Path, mapped: &MappedMount) -> Result<(), OciRuntimeError> {
    let mappings = &mapped.mappings;
    let ids = user_namespace(mappings)?;
    let what = format!("the mount of {}", source.display());
    let kernel = "the file system has no id-mapped mounts (tmpfs has them from Linux 6.3 on)";
    let is_read_only = |overlay: &Overlay| overlay.upper.is_none() || mapped.is_implicit;
    // The source may be a part of an image.
    let around = |it: &str| if mapped.is_implicit { Overlay::around(it, source) } else { None };
    let table = mount_table()?;
    let whole = Overlay::at(&table, source).map(|overlay| (overlay, PathBuf::new()));
    let root = (mappings.uids.host, mappings.gids.host);
    let mounted = match whole.or_else(|| around(&table)).filter(|(it, _)| is_read_only(it)) {
        Some((overlay, part)) => {
            Overlay { upper: None, ..overlay }.mount_part_mapped(&part, target, ids.as_fd(), root)
        }
        // The container's root user can remove what the container's own mounts forbid, but not what the
        // mounts forbid from which they were made.
        None if mapped.without_devices => {
            id_map::mount_without_devices(source, target, Some(ids.as_fd()))
        }
        None => id_map::mount_mapped(source, target, ids.as_fd()),
    };
    mounted.map_err(|e| explained(e, &what, kernel))
}

fn mount_table() -> Result<String, HostError> {
    fs::read_to_string(MOUNTS).or_cannot("read", Path::new(MOUNTS))
}

/// A user namespace only for the id mapping, because the container's own might not exist yet.
fn user_namespace(mappings: &IdMappings) -> Result<OwnedFd, OciRuntimeError> {
    let maps = IdMaps { uids: mappings.uids.line(), gids: mappings.gids.line() };
    Ok(NamespaceHolder::make(&maps, false)?.open_user()?)
}

/// Adds a reason, because the kernel only says "invalid argument" when it cannot map.
fn explained(error: HostError, what: &str, reason: &str) -> OciRuntimeError {
    if error.source.kind() != io::ErrorKind::InvalidInput {
        return error.into();
    }
    OciRuntimeError::Unsupported {
        what: format!("cannot map the owners of files of {what}"),
        reason: reason.to_owned(),
    }
}

impl EditsDirectory {
    pub(super) fn mount_point(&self, id: &str, index: usize) -> Result<PathBuf, HostError> {
        let directory = self.of(id).join(super::directory::MOUNTS);
        file::ensure_passable(&directory)?;
        Ok(directory.join(index.to_string()))
    }
}

const MOUNTS: &str = "/proc/self/mountinfo";
/// The engine's file is below 100 KiB, and no request can make it as large as this.
const MAX_CONFIG: u64 = 256 << 20;
