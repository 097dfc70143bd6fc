//! Adds the parts that a container's label leaves to the engine.

use crate::{
    model::{
        container::{ContainerSpec, variable},
        document::{ContainerDocument, Unread},
    },
    wire::docker::ContainerInspect,
};

/// Returns the document with those parts added. An entry of Docker's list lacks some of them: the document
/// then stays as it is.
pub(super) fn read_back(
    mut document: ContainerDocument,
    inspect: &ContainerInspect,
) -> ContainerDocument {
    if let Some(unread) = document.unread
        && let Some(spec) = whole(&document.spec, unread, inspect)
    {
        (document.spec, document.unread) = (spec, None);
    }
    document
}

fn whole(
    stored: &ContainerSpec,
    unread: Unread,
    inspect: &ContainerInspect,
) -> Option<ContainerSpec> {
    let (config, host) = (&inspect.config, &inspect.host_config);
    let mut spec = stored.clone();
    // If they were requested, the inspect has only these. Otherwise it has the image's.
    spec.command = config.entrypoint.get(..unread.command)?.to_vec();
    spec.args = config.cmd.get(..unread.args)?.to_vec();
    // The engine puts the image's variables after the caller's.
    let envs = config.env.get(..unread.envs)?.iter().map(|it| variable(it));
    spec.envs = envs.collect::<Option<_>>()?;
    let requested = host.mounts.get(..stored.mounts.len())?;
    for (mount, requested) in spec.mounts.iter_mut().zip(requested) {
        mount.container_path.clone_from(&requested.target);
        if mount.image.is_none() {
            mount.host_path.clone_from(&requested.source);
        }
    }
    Some(spec)
}
