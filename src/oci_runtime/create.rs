//! Makes the mounts that a container's edits need, and changes the `config.json` of its bundle.

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
        file::{self, Durability},
        id_map::{self, Overlay},
        namespaces::{IdMaps, NamespaceHolder},
    },
    model::{
        oci_edits::{MappedMount, OciEdits, REQUIRED_ANNOTATION},
        user_namespace::IdMappings,
    },
};

/// Prepares a bundle. Returns whether it has mounted anything.
///
/// # Errors
/// Fails if required edits are missing, or the edits cannot be read or applied. Then tries to undo its mounts.
pub fn prepare(
    directory: &EditsDirectory,
    id: &str,
    bundle: &Path,
) -> Result<bool, OciRuntimeError> {
    let path = bundle.join("config.json");
    let edits = directory.read(id)?;
    let Some(bytes) = file::read_if_present(&path, MAX_CONFIG)? else {
        // The lower runtime, or the restore, fails without `config.json`.
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
    // An earlier dockbridge-runtime that was killed may have left mounts.
    directory.unmount(id)?;
    let done = mount(directory, id, bundle, &document, &edits).and_then(|mounted| {
        edit::edit(&mut document, &edits, &mounted)?;
        let text = serde_json::to_vec(&document).map_err(malformed)?;
        let mode = config_mode(bundle, &edits)?;
        file::replace_with_mode(mode, &path, &text, Durability::Written)?;
        Ok(mounted != Mounted::default())
    });
    if done.is_err() {
        // The caller reports only the first error. Another `create`, or the removal, unmounts the rest.
        let _ = directory.unmount(id);
    }
    done
}

/// The mode of `config.json`. With a user namespace, hooks such as NVIDIA's run as the pod's root and must read it.
fn config_mode(bundle: &Path, edits: &OciEdits) -> Result<u32, HostError> {
    let Some(users) = &edits.users else { return Ok(0o600) };
    file::ensure_passable_by(bundle, Some(users.gids.host))?;
    Ok(0o644)
}

/// Fails if the document has the annotation of a container that requires edits. Most containers have no
/// edits, so this function parses only a document that contains the text of the annotation.
fn refuse_without_edits(
    directory: &EditsDirectory,
    id: &str,
    bytes: &[u8],
) -> Result<(), OciRuntimeError> {
    if memchr::memmem::find(bytes, REQUIRED_ANNOTATION.as_bytes()).is_none() {
        return Ok(());
    }
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if document.get("annotations").and_then(|all| all.get(REQUIRED_ANNOTATION)).is_some() {
        return Err(OciRuntimeError::Other(format!(
            "container {id} cannot start: {} is missing. dockbridge writes that file before it starts a container. \
             Start the container through the CRI, or remove the container: kubelet then creates another one",
            directory.file(id).display()
        )));
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
                explained(
                    e,
                    "the root file system",
                    "id-mapped overlays need Linux 5.19, and layers that the kernel can id-map",
                )
            })
        }
        None => id_map::mount_without_devices(&engine, target, Some(ids.as_fd())).map_err(|e| {
            explained(
                e,
                "the root file system",
                "Docker's storage driver does not support id-mapped mounts; use overlay2",
            )
        }),
    }
}

/// Mounts a volume again, with mapped ids. If an image volume of a pod with a user namespace is an overlay, the new
/// mount omits the upper directory that the engine may have added, because nothing writes to it. The layers of any
/// other overlay with an upper directory must not be mounted again: writes through two mounts could damage the upper
/// directory, and a read-only volume could be written.
fn mount_volume(source: &Path, target: &Path, mapped: &MappedMount) -> Result<(), OciRuntimeError> {
    let mappings = &mapped.mappings;
    let ids = user_namespace(mappings)?;
    let what = format!("the mount of {}", source.display());
    let kernel = "its file system does not support id-mapped mounts (tmpfs does since Linux 6.3)";
    let is_read_only = |overlay: &Overlay| overlay.upper.is_none() || mapped.without_devices;
    // The source of an image volume may be a directory inside the image's overlay.
    let around = |it: &str| if mapped.without_devices { Overlay::around(it, source) } else { None };
    let table = mount_table()?;
    let whole = Overlay::at(&table, source).map(|overlay| (overlay, PathBuf::new()));
    let root = (mappings.uids.host, mappings.gids.host);
    let mounted = match whole.or_else(|| around(&table)).filter(|(it, _)| is_read_only(it)) {
        Some((overlay, part)) => {
            Overlay { upper: None, ..overlay }.mount_part_mapped(&part, target, ids.as_fd(), root)
        }
        // Root in a privileged container can remove `nodev` from the container's own mount, but not from the source
        // of that mount, which dockbridge-runtime mounts here.
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

/// Makes a user namespace only for the id mapping: the container's user namespace might not exist yet.
fn user_namespace(mappings: &IdMappings) -> Result<OwnedFd, OciRuntimeError> {
    let maps = IdMaps { uids: mappings.uids.line(), gids: mappings.gids.line() };
    Ok(NamespaceHolder::make(&maps, false)?.open_user()?)
}

/// Replaces "invalid argument" with `reason`: if the kernel cannot map ids, it says no more than that.
fn explained(error: HostError, what: &str, reason: &str) -> OciRuntimeError {
    if error.source.kind() != io::ErrorKind::InvalidInput {
        return error.into();
    }
    OciRuntimeError::Other(format!("cannot map the owners of the files in {what}: {reason}"))
}

const MOUNTS: &str = "/proc/self/mountinfo";
/// Maximum size of a `config.json` in bytes. The engine's are usually smaller than 100 KiB.
const MAX_CONFIG: u64 = 256 << 20;
