//! Plans read-only mounts, recursive or not.

use crate::{
    error::Failure,
    model::{
        container::{Mount, Propagation},
        engine::{ApiVersion, EngineInfo},
    },
    wire::docker::MountBindOptions,
};

/// Refuses a recursive read-only mount, except of an image, that lacks `readonly`, private propagation or the node's
/// support.
pub(super) fn check<'a>(
    mounts: impl IntoIterator<Item = &'a Mount>,
    handler: &str,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    let recursive = |mount: &&Mount| mount.recursive_read_only && mount.image.is_none();
    mounts.into_iter().filter(recursive).try_for_each(|mount| {
        let target = &mount.container_path;
        // kubelet evaluates the prefix `RROUnsupported` of the error.
        let unsupported = |reason| {
            Failure::invalid(format!(
                "RROUnsupported: mount at {target:?} cannot be recursively read-only: {reason}"
            ))
        };
        if engine.api < ApiVersion::RECURSIVE_READ_ONLY && !engine.edits_read_only(handler) {
            return Err(unsupported(
                "this needs Linux 5.12, and Docker 25.0 with an OCI runtime that reports it, or Docker 24.0 with runc and dockbridge-runtime (`dockbridge setup`)",
            ));
        }
        if engine.api >= ApiVersion::RECURSIVE_READ_ONLY
            && !engine.recursive_read_only(handler)
        {
            return Err(unsupported("the kernel cannot do this, or the OCI runtime does not report that it can"));
        }
        let needs = match (mount.propagation, mount.readonly) {
            (Propagation::Private, true) => return Ok(()),
            (Propagation::Private, false) => "readonly",
            (Propagation::HostToContainer | Propagation::Bidirectional, _) => "private propagation",
        };
        let text = format!("recursive_read_only of the mount at {target:?} needs {needs}");
        Err(Failure::invalid(text))
    })
}

/// The read-only options of a bind mount. From API 1.44 on, the engine by default makes a read-only mount recursively
/// read-only if the kernel supports this, but CRI's `readonly` alone excludes mounts below its path.
pub(super) fn bind_options(mount: &Mount, api: ApiVersion) -> MountBindOptions {
    let known = api >= ApiVersion::RECURSIVE_READ_ONLY && mount.readonly;
    MountBindOptions {
        read_only_non_recursive: (known && !mount.recursive_read_only).then_some(true),
        // Without this option, the engine would not report that it cannot make the mount recursively read-only.
        read_only_force_recursive: (known && mount.recursive_read_only).then_some(true),
        ..MountBindOptions::default()
    }
}
