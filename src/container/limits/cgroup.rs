//! Reads and sets limits in a container's cgroup. Functions that read or write files block unless they are async.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{debug, warn};

use super::reported::{reported, text};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, Kind, chain},
    host::{
        cgroup::{self, Cgroup, Cgroups},
        error::HostError,
        process::{ProcessError, ProcessExit, Program, run},
    },
    model::resources::Resources,
    translate::limits::cgroup_files::{CgroupFile, IfMissing},
};

/// The cgroup of a container, found through one of its processes.
#[derive(Clone, Debug)]
pub(super) struct ContainerCgroup {
    pub(super) group: Arc<Cgroup>,
    pid: u32,
    id: String,
    cgroups: Cgroups,
}

impl ContainerCgroup {
    /// The cgroup of container `id` in which, or below which, process `pid` runs. None if dockbridge cannot find it.
    pub(super) fn of(cgroups: &Cgroups, pid: u32, id: &str) -> Option<Self> {
        match cgroups.find(pid, id) {
            Ok(group) => Some(Self { group, pid, id: id.to_owned(), cgroups: cgroups.clone() }),
            Err(error) => {
                debug!(container = id, error = chain(&error), "no cgroup found");
                None
            }
        }
    }

    /// The cgroup that an earlier call has found for this process. The cgroup may no longer exist.
    pub(super) fn cached(cgroups: &Cgroups, pid: u32, id: &str) -> Option<Self> {
        let group = cgroups.cached(pid, id)?;
        Some(Self { group, pid, id: id.to_owned(), cgroups: cgroups.clone() })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.cgroups.find(self.pid, &self.id).is_ok()
    }

    /// The current limits, in the form in which they were requested. None if the cgroup no longer exists.
    pub(super) fn shown(
        &self,
        requested: &Resources,
        settings: &[CgroupFile],
    ) -> Option<Resources> {
        let has_cpusets = !requested.cpuset_cpus.is_empty() || !requested.cpuset_mems.is_empty();
        let now =
            if has_cpusets { self.group.limits(self.pid) } else { self.group.numbers(self.pid) };
        let is_there = now.is_known() || self.group.exists();
        is_there.then(|| reported(requested, &now, settings, |setting| self.current(setting)))
    }

    /// The content of a cgroup file. None if the file cannot be read.
    pub(super) fn current(&self, setting: &CgroupFile) -> Option<String> {
        self.group.text(&setting.controller, &setting.file)
    }

    /// The `settings` whose cgroup file is missing, or differs from the requested value by more than the kernel's
    /// rounding.
    pub(super) fn differing(&self, settings: Vec<CgroupFile>) -> Vec<CgroupFile> {
        let holds = |setting: &CgroupFile| {
            self.current(setting).is_some_and(|now| text(setting, now) == setting.value)
        };
        settings.into_iter().filter(|setting| !holds(setting)).collect()
    }

    /// Writes a cgroup file. [`CgroupFile::if_missing`] says what to do if the file does not exist. Ignores
    /// a failed write if the container has ended, because nothing is left to limit.
    pub(super) fn set(&self, setting: &CgroupFile) -> Result<(), Failure> {
        let Some((_, directory)) = self.group.directory(&setting.controller) else {
            return self.handle_missing(setting, no_group(setting));
        };
        let Err(cause) = cgroup::write(directory, &setting.file, &setting.value) else {
            return Ok(());
        };
        if !self.is_alive() {
            return Ok(());
        }
        let is_absent = cause.is_not_found();
        let refused = not_set(&setting.field(), &setting.value, &cause);
        if is_absent { self.handle_missing(setting, refused) } else { Err(refused) }
    }

    /// Sets the limits whose file has another value. Adds to `set` the limits that this function wrote into files or
    /// ignored, but not limits that systemd has set.
    pub(super) async fn write(
        &self,
        settings: &[CgroupFile],
        set: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let (cgroup, requested) = (self.clone(), settings.to_vec());
        let changed = blocking(move || cgroup.differing(requested)).await;
        self.set_systemd_properties(&changed).await;
        // When systemd sets one property, it may reset other files of the cgroup.
        let (cgroup, requested) = (self.clone(), settings.to_vec());
        let (written, outcome) = blocking(move || {
            let mut written = Vec::new();
            let files = cgroup.differing(requested);
            let outcome = files.iter().try_for_each(|file| {
                cgroup.set(file)?;
                written.push(file.field());
                Ok(())
            });
            (written, outcome)
        })
        .await;
        set.extend(written);
        outcome
    }

    fn handle_missing(&self, setting: &CgroupFile, refused: Failure) -> Result<(), Failure> {
        match setting.if_missing {
            IfMissing::Fail => return Err(refused),
            IfMissing::Ignore => {}
            IfMissing::Warn => warn!(
                container = self.id,
                file = setting.file,
                "the container's cgroup has no file for a limit; ignoring the limit"
            ),
        }
        Ok(())
    }

    /// Sets the OOM score adjustment of the main process, unless the kernel does not permit the value.
    pub(super) fn set_score(&self, score: i64) -> Result<(), Failure> {
        if self.group.oom_score_adj(self.pid) == Some(score) || !self.is_alive() {
            return Ok(());
        }
        match self.group.set_oom_score_adj(self.pid, score) {
            Err(cause) if cause.source.kind() == std::io::ErrorKind::PermissionDenied => {
                warn!(
                    container = self.id,
                    score,
                    "no permission to set the container's oom_score_adj; the container keeps its score"
                );
                Ok(())
            }
            Err(cause) if self.is_alive() => {
                Err(not_set("linux.oom_score_adj", &score.to_string(), &cause))
            }
            _ => Ok(()),
        }
    }

    /// If systemd manages the cgroup, sets properties of the cgroup's unit, because a reload of systemd would reset
    /// the files. dockbridge also writes the cgroup files, so a failure of `systemctl` is only logged.
    async fn set_systemd_properties(&self, settings: &[CgroupFile]) {
        let Some(scope) = self.group.scope() else { return };
        // One call for each setting: systemd applies either all properties of a call or none, and older
        // versions do not know all names.
        for setting in settings.iter().filter(|setting| !setting.properties.is_empty()) {
            let before = self.read(setting).await;
            if set_property(scope, &setting.properties).await {
                self.wait_until_set(setting, before).await;
            }
        }
    }

    /// systemd sets the properties a moment after its answer, and may then reset a file that dockbridge has written.
    async fn wait_until_set(&self, setting: &CgroupFile, before: Option<String>) {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        while Instant::now() < deadline {
            let now = self.read(setting).await;
            if now != before || now.as_ref() == Some(&setting.value) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn read(&self, setting: &CgroupFile) -> Option<String> {
        let (cgroup, setting) = (self.clone(), setting.clone());
        blocking(move || cgroup.current(&setting)).await
    }
}

pub(super) fn no_group(setting: &CgroupFile) -> Failure {
    let field = setting.field();
    Failure::unmet(format!("{field}: dockbridge cannot find the container's cgroup for this limit"))
}

fn not_set(field: &str, value: &str, cause: &HostError) -> Failure {
    let is_invalid = cause.source.raw_os_error() == Some(OUT_OF_RANGE)
        || cause.source.kind() == std::io::ErrorKind::InvalidInput;
    let kind = if is_invalid { Kind::InvalidArgument } else { Kind::FailedPrecondition };
    Failure::new(kind, chain(cause)).within(format_args!("cannot set {field} to {value}"))
}

async fn set_property(scope: &str, properties: &[String]) -> bool {
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let arguments = [&["set-property", "--runtime", scope], properties.as_slice()].concat();
    let ran = run(Program::new(Path::new("systemctl"), &arguments, SYSTEMD_TIMEOUT));
    let error = match ran.await {
        Ok(ran) if ran.exit == ProcessExit::Code(0) => return true,
        Ok(ran) => ran.stderr,
        Err(ProcessError::Start { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            debug!(scope, "systemctl not found; systemd may reset the limit");
            return false;
        }
        Err(error) => chain(&error),
    };
    warn!(scope, error, "systemctl set-property failed; systemd may reset the limit");
    false
}

/// The error number ERANGE, for which Rust's `io::ErrorKind` has no variant.
const OUT_OF_RANGE: i32 = 34;
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long dockbridge waits until systemd has applied a property.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
