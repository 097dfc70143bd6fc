//! Read-only mounts, recursive or not.

use crate::{
    error::Failure,
    model::{
        container::{Mount, Propagation},
        engine::{ApiVersion, EngineInfo},
    },
    wire::docker::MountBindOptions,
};

/// Refuses recursive read-only mounts that the engine or the runtime of `handler` does not support, then
/// contradictory ones.
pub(super) fn check<'a>(
    mounts: impl IntoIterator<Item = &'a Mount>,
    handler: &str,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    let recursive = |mount: &&Mount| mount.recursive_read_only && mount.image.is_none();
    mounts.into_iter().filter(recursive).try_for_each(|mount| {
        let target = &mount.container_path;
        // kubelet reads the prefix.
        let unsupported = |reason| {
            Failure::invalid(format!(
                "RROUnsupported: mount at {target:?} cannot be recursively read-only: {reason}"
            ))
        };
        if engine.api < ApiVersion::RECURSIVE_READ_ONLY && !engine.edits_read_only(handler) {
            return Err(unsupported(
                "Docker is older than 25.0; with Docker 24.0, `dockbridge setup` adds dockbridge-runtime, which can do this",
            ));
        }
        if engine.api >= ApiVersion::RECURSIVE_READ_ONLY
            && !engine.recursive_read_only(handler)
        {
            return Err(unsupported("the kernel or the OCI runtime cannot do this"));
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

/// The options of a read-only bind. From API 1.44 on, it is recursive if the kernel supports this, which is
/// more than CRI's `readonly` alone means.
pub(super) fn bind_options(mount: &Mount, api: ApiVersion) -> MountBindOptions {
    let known = api >= ApiVersion::RECURSIVE_READ_ONLY && mount.readonly;
    MountBindOptions {
        read_only_non_recursive: (known && !mount.recursive_read_only).then_some(true),
        // This gives an error if the kernel or runtime does not support it, instead of a weaker mount.
        read_only_force_recursive: (known && mount.recursive_read_only).then_some(true),
        ..MountBindOptions::default()
    }
}
