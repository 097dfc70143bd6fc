//! Limits in a running container's cgroup: read and set. All of it blocks, but for the calls to
//! systemd.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    error::LimitError,
    shown::{shown, text},
};
use crate::{
    concurrency::blocking::blocking,
    error::chain,
    host::{
        cgroup::{self, Cgroup, Cgroups, limits::Limits},
        process::{ProcessError, ProcessExit, Program, run},
    },
    model::{record::ContainerRecord, resources::Resources},
    translate::limits::cgroup_files::{CgroupFile, IfMissing},
};

/// The control group of one process of a container.
#[derive(Clone, Debug)]
pub(super) struct ContainerCgroup {
    group: Arc<Cgroup>,
    pid: u32,
    /// For errors and for finding it again.
    id: String,
    cgroups: Cgroups,
}

impl ContainerCgroup {
    /// Where a container runs; none when it does not, or where that cannot be seen.
    pub(super) fn find(cgroups: &Cgroups, record: &ContainerRecord) -> Option<Self> {
        Self::of(cgroups, record.process.pid()?, record.id.as_str())
    }

    /// The control group of container `id` that its process `pid` is in; none as above.
    pub(super) fn of(cgroups: &Cgroups, pid: u32, id: &str) -> Option<Self> {
        match cgroups.find(pid, id) {
            Ok(group) => Some(Self { group, pid, id: id.to_owned(), cgroups: cgroups.clone() }),
            Err(error) => {
                debug!(container = id, error = chain(&error), "no control group found");
                None
            }
        }
    }

    /// The one found before for this process, without I/O; it may be gone.
    pub(super) fn remembered(cgroups: &Cgroups, pid: u32, id: &str) -> Option<Self> {
        let group = cgroups.cached(pid, id)?;
        Some(Self { group, pid, id: id.to_owned(), cgroups: cgroups.clone() })
    }

    /// [`Self::shown`]; none when the group has gone. Never blocks.
    pub(super) fn shown_now(
        &self,
        requested: &Resources,
        settings: &[CgroupFile],
    ) -> Option<Resources> {
        let held = self.held(requested);
        (held.is_known() || self.group.exists()).then(|| self.rendered(requested, &held, settings))
    }

    pub(super) fn lives(&self) -> bool {
        self.cgroups.find(self.pid, &self.id).is_ok()
    }

    /// The limits in force, in the form in which they were requested.
    pub(super) fn shown(&self, requested: &Resources, settings: &[CgroupFile]) -> Resources {
        self.rendered(requested, &self.held(requested), settings)
    }

    fn held(&self, requested: &Resources) -> Limits {
        let lists = !requested.cpuset_cpus.is_empty() || !requested.cpuset_mems.is_empty();
        if lists { self.limits() } else { self.group.numbers(self.pid) }
    }

    fn rendered(&self, requested: &Resources, held: &Limits, settings: &[CgroupFile]) -> Resources {
        shown(requested, held, settings, |setting| self.current(setting))
    }

    fn limits(&self) -> Limits {
        self.group.limits(self.pid)
    }

    /// Memory that would have to be found elsewhere if the limit were below it.
    pub(super) fn working_set(&self) -> Option<i64> {
        self.group.working_set()
    }

    /// What a file holds now; none if it is not there.
    pub(super) fn current(&self, setting: &CgroupFile) -> Option<String> {
        self.group.text(&setting.controller, &setting.file)
    }

    /// Those of which the kernel holds something else than what becomes of them. Blocks.
    pub(super) fn differing(&self, settings: Vec<CgroupFile>) -> Vec<CgroupFile> {
        let holds = |setting: &CgroupFile| {
            self.current(setting).is_some_and(|now| text(setting, now) == setting.value)
        };
        settings.into_iter().filter(|setting| !holds(setting)).collect()
    }

    /// Sets a file. What its absence means, the setting says; in a container that has ended
    /// meanwhile nothing is left to limit.
    pub(super) fn set(&self, setting: &CgroupFile) -> Result<(), LimitError> {
        let Some((_, directory)) = self.group.directory(&setting.controller) else {
            return self.absent(setting, LimitError::NoGroup { field: setting.field() });
        };
        let Err(cause) = cgroup::write(directory, &setting.file, &setting.value) else {
            return Ok(());
        };
        if !self.lives() {
            return Ok(());
        }
        let is_absent = cause.is_not_found();
        let (field, value) = (setting.field(), setting.value.clone());
        let refused = LimitError::NotSet { field, value, cause: Arc::new(cause) };
        if is_absent { self.absent(setting, refused) } else { Err(refused) }
    }

    /// Writes the files whose value is another one, and adds their fields to `set`.
    pub(super) async fn write(
        &self,
        settings: &[CgroupFile],
        set: &mut Vec<String>,
    ) -> Result<(), LimitError> {
        let (cgroup, asked) = (self.clone(), settings.to_vec());
        let changed = blocking(move || cgroup.differing(asked)).await;
        self.tell_systemd(&changed).await;
        // systemd may have reset other files when it was told of one.
        let (cgroup, asked) = (self.clone(), settings.to_vec());
        let (written, outcome) = blocking(move || {
            let mut written = Vec::new();
            let files = cgroup.differing(asked);
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

    fn absent(&self, setting: &CgroupFile, refused: LimitError) -> Result<(), LimitError> {
        match setting.if_missing {
            IfMissing::Fail => return Err(refused),
            IfMissing::Ignore => {}
            IfMissing::Warn => warn!(
                container = self.id,
                file = setting.file,
                "the kernel has no such limit; ignoring it"
            ),
        }
        Ok(())
    }

    /// The OOM score of the main process.
    fn score(&self) -> Option<i64> {
        self.group.oom_score_adj(self.pid)
    }

    /// Sets the OOM score of the main process. Where that is not permitted, the score stays what
    /// it is, as it would at a start: scores are clamped to what a host allows.
    pub(super) fn set_score(&self, score: i64) -> Result<(), LimitError> {
        if self.score() == Some(score) || !self.lives() {
            return Ok(());
        }
        match self.group.set_oom_score_adj(self.pid, score) {
            Err(cause) if cause.source.kind() == std::io::ErrorKind::PermissionDenied => {
                warn!(
                    container = self.id,
                    score, "not permitted to set this oom_score_adj; keeping the current one"
                );
                Ok(())
            }
            Err(cause) if self.lives() => Err(LimitError::NotSet {
                field: "linux.oom_score_adj".to_owned(),
                value: score.to_string(),
                cause: Arc::new(cause),
            }),
            _ => Ok(()),
        }
    }

    /// Tells systemd, where it keeps the group, what it would otherwise undo when it is reloaded.
    /// The files are written all the same, so its refusal is worth a warning, not an error.
    async fn tell_systemd(&self, settings: &[CgroupFile]) {
        let Some(scope) = self.group.scope() else { return };
        // One at a time: systemd takes all of a call or nothing, and older ones know fewer names.
        for setting in settings.iter().filter(|setting| !setting.properties.is_empty()) {
            let before = self.read(setting).await;
            if tell_systemd(scope, &setting.properties).await {
                self.until_set(setting, before).await;
            }
        }
    }

    /// systemd sets what it was sent, and other files to its own defaults, a
    /// moment after it has answered: only then do ours last.
    async fn until_set(&self, setting: &CgroupFile, before: Option<String>) {
        let deadline = Instant::now() + SETTLING;
        while Instant::now() < deadline {
            let now = self.read(setting).await;
            if now != before || now.as_ref() == Some(&setting.value) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn read(&self, setting: &CgroupFile) -> Option<String> {
        let (cgroup, setting) = (self.clone(), setting.clone());
        blocking(move || cgroup.current(&setting)).await
    }
}

/// One call of systemctl; whether systemd took it.
async fn tell_systemd(scope: &str, properties: &[String]) -> bool {
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let arguments = [&["set-property", "--runtime", scope], properties.as_slice()].concat();
    let ran = run(Program {
        executable: Path::new("systemctl"),
        arguments: &arguments,
        environment: &[],
        input: &[],
        time_limit: SYSTEMD_TIMEOUT,
        output_limit: OUTPUT_LIMIT,
    });
    match ran.await {
        Ok(ran) if ran.exit == ProcessExit::Code(0) => return true,
        Ok(ran) => {
            warn!(
                scope,
                error = ran.stderr,
                "systemctl set-property failed; systemd may reset the limit"
            );
        }
        Err(ProcessError::Start { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            debug!(scope, "systemctl not found; systemd may reset the limit");
        }
        Err(error) => {
            let error = chain(&error);
            warn!(scope, error, "systemctl set-property failed; systemd may reset the limit");
        }
    }
    false
}

/// How long systemd may take for one call.
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to do what it has agreed to, and how often that is checked.
const SETTLING: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// It prints nothing on success.
const OUTPUT_LIMIT: usize = 64 << 10;
