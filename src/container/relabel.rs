//! Gives the pod's files an SELinux label, and the sources of other mounts if the request demands that.

use std::{collections::BTreeSet, io, path::Path, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    create::make_directory,
    node::{Node, refused_file},
};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, chain},
    host::relabel::{SELINUX, relabel},
    model::{container::ContainerSpec, engine::EngineInfo, id::SandboxId},
};

impl Node {
    /// On an engine with SELinux, gives the sources of mounts with `selinux_relabel`, and everything below them, the
    /// label that the engine chose for this container's files. Gives the pod's files a label that all containers of the
    /// pod may read. Must be called before the container can start, while the caller holds the lock of the pod. A call
    /// that stops or removes the pod interrupts the relabelling of the mounts' sources.
    ///
    /// # Errors
    /// The engine fails, dockbridge cannot or must not relabel a source, or the pod is being stopped or removed.
    pub(super) async fn relabel_mounts(
        &self,
        engine: &EngineInfo,
        (sandbox, spec): (&SandboxId, &ContainerSpec),
        id: &str,
    ) -> Result<(), Failure> {
        if !engine.has_selinux() {
            return Ok(());
        }
        let label = self.engine.mount_label(id).await?;
        if label.is_empty() {
            return Ok(());
        }
        let asking =
            spec.mounts.iter().filter(|mount| mount.selinux_relabel && mount.image.is_none());
        let sources: BTreeSet<String> = asking.map(|mount| mount.host_path.clone()).collect();
        let cancellation = self.cancellations.of(sandbox.as_str());
        self.relabel_pod_files(sandbox, without_categories(&label)).await;
        for source in sources {
            relabel_source(source, label.clone(), Arc::clone(&cancellation)).await?;
        }
        Ok(())
    }

    /// A failure is only logged, because a container can run without reading these files.
    async fn relabel_pod_files(&self, sandbox: &SandboxId, label: String) {
        let files = self.pod_files.directory(sandbox);
        let relabelling = blocking(move || match files.exists() {
            true => relabel(&files, (SELINUX, &label), &|| false).map(|_| ()),
            false => Ok(()),
        });
        if let Err(error) = relabelling.await {
            warn!(%sandbox, error = chain(&error), "cannot set the SELinux label of a pod's resolv.conf, hosts and hostname; containers might not be able to read them");
        }
    }
}

/// The label without SELinux categories, and unchanged if it has no level. Containers of a pod may have different
/// categories, and each container may use a file that has no categories.
fn without_categories(label: &str) -> String {
    let parts: Vec<&str> = label.splitn(4, ':').collect();
    match parts[..] {
        [user, role, kind, _] => format!("{user}:{role}:{kind}:s0"),
        _ => label.to_owned(),
    }
}

async fn relabel_source(
    source: String,
    label: String,
    cancellation: Arc<CancellationToken>,
) -> Result<(), Failure> {
    let (place, stopping) = (source.clone(), Arc::clone(&cancellation));
    let relabelling = blocking(move || {
        let place = Path::new(&place);
        // From API 1.42 on, the engine creates a missing source only when the container starts.
        make_directory(place)?;
        let resolved = place.canonicalize()?;
        if is_the_hosts(&resolved) {
            let text = "dockbridge does not relabel this path, which other programs may need";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let is_over = || cancellation.is_cancelled();
        let done = relabel(&resolved, (SELINUX, &label), &is_over);
        let count = done.map_err(|refused| refused.source)?;
        info!(source = %resolved.display(), label, count, "mount source relabelled for SELinux");
        Ok(())
    });
    let done = tokio::select! {
        done = relabelling => done,
        () = cut_short(&stopping) => Err(io::ErrorKind::Interrupted.into()),
    };
    done.map_err(|cause| match cause.kind() {
        io::ErrorKind::Interrupted => Failure::unmet(format!(
            "the pod is being stopped; SELinux relabelling of {source} was cancelled"
        )),
        _ => refused_file("set the SELinux label of", source.as_ref(), cause),
    })
}

/// Returns [`BETWEEN_FILES`] after the cancellation. By then, the relabelling has ended, unless its thread hangs on a
/// disk.
async fn cut_short(cancellation: &CancellationToken) {
    cancellation.cancelled().await;
    tokio::time::sleep(BETWEEN_FILES).await;
}

/// Whether dockbridge refuses to relabel this path, because other programs may need it.
fn is_the_hosts(path: &Path) -> bool {
    let depth = path.components().count();
    // `/` and every directory directly below `/`.
    depth <= 2
        || OF_THE_HOST.iter().any(|held| path.starts_with(held))
        || ROOTS.contains(&path.to_str().unwrap_or("/"))
}

const BETWEEN_FILES: Duration = Duration::from_secs(5);
/// Directories that dockbridge does not relabel, including everything below them.
const OF_THE_HOST: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/sbin", "/sys",
    "/usr",
];
/// dockbridge refuses to relabel these directories, but not directories below them, which may belong to a pod.
const ROOTS: [&str; 5] = ["/var/lib", "/var/log", "/var/run", "/var/tmp", "/var/cache"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_label_has_no_categories() {
        for (label, shared) in [
            (
                "system_u:object_r:container_file_t:s0:c1,c2",
                "system_u:object_r:container_file_t:s0",
            ),
            ("system_u:object_r:container_file_t:s0", "system_u:object_r:container_file_t:s0"),
            ("system_u:object_r:container_file_t", "system_u:object_r:container_file_t"),
        ] {
            assert_eq!(without_categories(label), shared);
        }
    }

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
}
