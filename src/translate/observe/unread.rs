//! Reads back what the label of a container leaves to the engine.

use crate::{
    model::{
        container::{ContainerSpec, variable},
        document::{ContainerDocument, Unread},
    },
    wire::docker::ContainerInspect,
};

/// The whole document; as it is where the inspect lacks a part, as an entry of a list does.
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
    // Stated ones are all there is; for others the engine has the image's.
    spec.command = config.entrypoint.get(..unread.command)?.to_vec();
    spec.args = config.cmd.get(..unread.args)?.to_vec();
    // The engine puts the image's variables behind the caller's.
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
