//! SELinux options: whether the policy has them, and which label the sources of mounts get.

use std::{
    collections::BTreeSet, fs::DirBuilder, io, os::unix::fs::DirBuilderExt, path::Path, sync::Arc,
};

use tracing::{debug, info};

use crate::{
    container::{error::ContainerError, room::Containers},
    error::Kind,
    host::{
        relabel::{SELINUX, relabel},
        selinux::is_valid,
    },
    model::{container::ContainerSpec, engine::EngineInfo, security::SelinuxLabel},
    translate::plan::error::PlanError,
};

/// Refuses options that the loaded policy does not know. Where the engine runs without SELinux
/// they mean nothing, and are ignored: charts state them for every kind of node.
pub(super) fn check(
    label: Option<&SelinuxLabel>,
    engine: &EngineInfo,
    field: &str,
) -> Result<(), PlanError> {
    let Some(label) = label else { return Ok(()) };
    let context = context(label);
    if !engine.has_selinux() {
        debug!(context, "the engine runs without SELinux: the options asked for mean nothing");
        return Ok(());
    }
    let smuggled = [&label.user, &label.role, &label.kind].iter().any(|part| part.contains(':'));
    let refused = match is_valid(&context) {
        Ok(known) => known == Some(false),
        Err(error) => {
            debug!(context, %error, "SELinux options cannot be checked");
            false
        }
    };
    if smuggled || refused {
        let reason = format!("the SELinux policy has no context {context:?}");
        return Err(PlanError::Host { field: field.to_owned(), reason });
    }
    Ok(())
}

/// What is not stated is what containers usually have.
fn context(label: &SelinuxLabel) -> String {
    let or = |stated: &str, usual: &str| {
        if stated.is_empty() { usual.to_owned() } else { stated.to_owned() }
    };
    [
        or(&label.user, "system_u"),
        or(&label.role, "system_r"),
        or(&label.kind, "container_t"),
        or(&label.level, "s0"),
    ]
    .join(":")
}

impl Containers {
    /// Gives the sources of mounts that ask for it, and all below them, the label the engine
    /// chose for this container's files. Called before the container can start.
    ///
    /// # Errors
    /// A source that must not be relabelled, is too large, or does not let itself be.
    pub(in crate::container) async fn relabel_mounts(
        &self,
        engine: &EngineInfo,
        spec: &ContainerSpec,
        id: &str,
    ) -> Result<(), ContainerError> {
        let asking =
            spec.mounts.iter().filter(|mount| mount.selinux_relabel && mount.image.is_none());
        let sources: BTreeSet<String> = asking.map(|mount| mount.host_path.clone()).collect();
        if sources.is_empty() || !engine.has_selinux() {
            return Ok(());
        }
        let label = self.engine.mount_label(id).await?;
        if label.is_empty() {
            return Ok(());
        }
        for source in sources {
            relabel_source(source, label.clone()).await?;
        }
        Ok(())
    }
}

async fn relabel_source(source: String, label: String) -> Result<(), ContainerError> {
    let place = source.clone();
    let relabelling = tokio::task::spawn_blocking(move || {
        let place = Path::new(&place);
        // Not every engine has made it by now.
        DirBuilder::new().recursive(true).mode(0o755).create(place).or_else(present)?;
        let resolved = place.canonicalize()?;
        if is_the_hosts(&resolved) {
            let text = "is the host's own, and would be lost to it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let count = relabel(&resolved, SELINUX, &label).map_err(|refused| refused.source)?;
        info!(source = %resolved.display(), label, count, "relabelled the source of a mount");
        Ok(())
    });
    let done = relabelling.await.unwrap_or_else(|lost| Err(lost.into()));
    done.map_err(|cause| ContainerError::File {
        action: "relabel for SELinux",
        path: source.into(),
        cause: Arc::new(cause),
        kind: Kind::InvalidArgument,
    })
}

/// A file is fine as well.
fn present(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// What every other program of the host lives on.
fn is_the_hosts(path: &Path) -> bool {
    let depth = path.components().count();
    depth <= 2
        || OF_THE_HOST.iter().any(|held| path.starts_with(held))
        || ROOTS.contains(&path.to_str().unwrap_or("/"))
}

/// With all below them.
const OF_THE_HOST: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/sbin", "/sys",
    "/usr",
];
/// Themselves; what is in them may be a pod's. So is all that is directly below the root.
const ROOTS: [&str; 5] = ["/var/lib", "/var/log", "/var/run", "/var/tmp", "/var/cache"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_is_left_alone() {
        for (path, held) in [
            ("/", true),
            ("/etc", true),
            ("/etc/kubernetes", true),
            ("/usr/share/x", true),
            ("/home", true),
            ("/srv", true),
            ("/home/someone/data", false),
            ("/srv/data", false),
            ("/var/lib", true),
            ("/var/lib/kubelet/pods/x/volumes/y", false),
            ("/tmp/x", false),
        ] {
            assert_eq!(is_the_hosts(Path::new(path)), held, "{path}");
        }
    }

    #[test]
    fn what_is_not_stated_is_usual() {
        let label = SelinuxLabel { level: "s0:c1,c2".to_owned(), ..SelinuxLabel::default() };
        assert_eq!(context(&label), "system_u:system_r:container_t:s0:c1,c2");
    }
}
