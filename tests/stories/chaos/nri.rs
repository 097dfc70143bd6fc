//! NRI plugins in the chaos story: one that stays connected, two that connect, fail, refuse calls and
//! disconnect, one that dockbridge starts and that is killed, and new ones for a comparison. A plugin may make a CRI
//! call fail only by refusing it, and each plugin must get its events in an allowed order.

use std::{
    fs,
    io::{Write as _, stdin},
    os::{fd::AsFd as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dockbridge::wire::{cri, nri};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use prost::Message as _;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    net::UnixStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    nri_order::{Knowledge, Stage},
    processes_with,
    recorded::Recorded,
};
use crate::nri_plugin::{Plugin, Reply, Told};
use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, fail},
    patience::{Looks, patient},
};

/// The NRI plugins of a chaos story.
pub(super) struct Plugins {
    site: Site,
    /// The plugins' tasks, which are aborted when this value is dropped.
    _tasks: JoinSet<()>,
}

/// The state that the tasks of the plugins share.
#[derive(Clone)]
struct Site {
    socket: PathBuf,
    told: Arc<Recorded>,
    kept: Arc<Mutex<Kept>>,
    /// The directory in which plugins that dockbridge started record their events.
    notes: PathBuf,
}

/// The state of the permanent plugin's current connection.
#[derive(Default)]
struct Kept {
    knowledge: Knowledge,
    /// Differences between another plugin's Synchronize and the permanent plugin's knowledge. The differences are
    /// errors only if the permanent plugin was still connected, which its next call over this connection shows.
    doubts: Vec<String>,
}

impl Plugins {
    /// Installs the plugin that dockbridge starts, and returns the directory of its records.
    pub(super) fn install(story: &Path) -> Outcome<PathBuf> {
        let (folder, notes) = (story.join("plugins"), story.join("notes"));
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&notes)?;
        let (program, script) = (std::env::current_exe()?, folder.join("30-started"));
        let (program, at) = (program.display(), notes.display());
        fs::write(&script, format!("#!/bin/sh\nexec {program} {PLUGIN} {at} <&3\n"))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(notes)
    }

    /// Connects the plugins.
    pub(super) fn start(
        socket: &Path,
        notes: &Path,
        told: &Arc<Recorded>,
        random: &mut StdRng,
    ) -> Self {
        let (told, kept) = (Arc::clone(told), Arc::default());
        let site = Site { socket: socket.to_owned(), told, kept, notes: notes.to_owned() };
        let mut tasks = JoinSet::new();
        tasks.spawn(site.clone().stays());
        for index in ["05", "20"] {
            tasks.spawn(site.clone().visits(index, StdRng::seed_from_u64(random.random())));
        }
        tasks.spawn(site.clone().kills(StdRng::seed_from_u64(random.random())));
        Self { site, _tasks: tasks }
    }

    /// Checks that the permanent plugin, a new plugin and the CRI have the same pods and containers. No pod
    /// or container may change at the same time.
    pub(super) async fn agree(&self, cri: &Cri) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(200));
        let mut differences = Vec::new();
        while looks.again().await {
            let kept = self.site.kept().knowledge.clone();
            let (told, listed) = (self.site.newcomer().await?, listed(cri).await?);
            differences = kept.differences(&told);
            differences.extend(listed.differences(&told));
            if differences.is_empty() && kept.is_synchronised() {
                return Ok(());
            }
        }
        fail!("a plugin that stayed, a new one or CRI: {}", differences.join("\n  "));
    }

    /// Checks that the permanent plugin knows no pods and containers, after all of them were removed. Then
    /// checks the events of the plugins that dockbridge started.
    pub(super) async fn know_nothing(&self) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(200));
        while looks.again().await {
            let kept = self.site.kept();
            if kept.knowledge.is_synchronised() && kept.knowledge.is_empty() {
                return self.site.judge_notes();
            }
        }
        fail!("a plugin still knows {:?}", self.site.kept().knowledge);
    }
}

impl Site {
    /// Runs the permanent plugin, which reconnects after each end of its connection.
    async fn stays(self) {
        loop {
            *self.kept() = Kept::default();
            let site = self.clone();
            let reply = move |call: &Told| {
                let mut kept = site.kept();
                let doubts: Vec<String> = kept.doubts.drain(..).collect();
                doubts.into_iter().for_each(|doubt| site.told.breaks(doubt));
                site.judge("10-stays", &mut kept.knowledge, call);
                Reply::Yes(Vec::new())
            };
            let plugin = Plugin::connect(&self.socket, ("10", "stays"), reply).await;
            self.told.count("connections of the plugin that stays");
            let _ = plugin.ended.await;
        }
    }

    /// Runs a plugin that repeatedly connects, fails or refuses some calls, and disconnects.
    async fn visits(self, index: &'static str, mut random: StdRng) {
        loop {
            let (mut calls, fate) = (random.random_range(0..30), random.random_range(0..4));
            let (site, mut knowledge) = (self.clone(), Knowledge::default());
            let reply = move |call: &Told| {
                site.judge(index, &mut knowledge, call);
                if call.method == "Synchronize" && knowledge.is_synchronised() {
                    site.compare(&knowledge);
                }
                if calls > 0 {
                    calls -= 1;
                    return but_validation(call);
                }
                site.told.count("calls that plugins failed");
                match fate {
                    0 => Reply::Silence,
                    1 => Reply::Garbage,
                    2 => Reply::Leave,
                    _ => {
                        calls = 3;
                        Reply::No(REFUSAL)
                    }
                }
            };
            let plugin = Plugin::connect(&self.socket, (index, "visits"), reply).await;
            self.told.count("visits of plugins");
            let (life, ended) = (random.random_range(0..15_000), plugin.ended.abort_handle());
            let _ = timeout(patient(Duration::from_millis(life)), plugin.ended).await;
            ended.abort();
            sleep(Duration::from_millis(random.random_range(0..1000))).await;
        }
    }

    /// Kills plugins that dockbridge started.
    async fn kills(self, mut random: StdRng) {
        loop {
            sleep(patient(Duration::from_millis(random.random_range(500..8000)))).await;
            let killed = processes_with(PLUGIN).into_iter();
            let pids = killed.filter_map(|pid| pid.parse().ok()).map(Pid::from_raw);
            if pids.filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count() > 0 {
                self.told.count("plugins killed");
            }
        }
    }

    fn judge(&self, who: &str, knowledge: &mut Knowledge, call: &Told) {
        knowledge.may_be_forgotten = self.told.engine_died();
        if let Err(why) = knowledge.take(&call.method, &call.payload) {
            self.told.breaks(format!("the plugin {who} was told {why}"));
        }
    }

    /// Compares another plugin's Synchronize with the permanent plugin's knowledge. Both must agree, because
    /// dockbridge sends no event during a Synchronize.
    fn compare(&self, other: &Knowledge) {
        let mut kept = self.kept();
        if kept.knowledge.is_synchronised() {
            self.told.count("Synchronize compared");
            let differences = kept.knowledge.differences(other);
            kept.doubts.extend(differences.iter().map(|it| format!("in a Synchronize: {it}")));
        }
    }

    /// Connects a new plugin, and returns the data that it receives.
    async fn newcomer(&self) -> Outcome<Knowledge> {
        let reply = |call: &Told| but_validation(call);
        let plugin = Plugin::synchronised(&self.socket, ("40", "new"), reply).await;
        let told = plugin.told.lock().unwrap().clone();
        let mut knowledge = Knowledge::default();
        told.iter().for_each(|call| self.judge("40-new", &mut knowledge, call));
        ensure!(knowledge.is_synchronised(), "a new plugin was told {:?}", plugin.methods());
        Ok(knowledge)
    }

    /// Checks the events of plugins that dockbridge started.
    fn judge_notes(&self) -> Outcome {
        let mut notes = 0;
        for file in fs::read_dir(&self.notes)?.flatten() {
            let (bytes, mut knowledge) = (fs::read(file.path())?, Knowledge::default());
            knowledge.may_be_forgotten = self.told.engine_died();
            let mut rest = bytes.as_slice();
            // The plugin may have been killed while it wrote its last record.
            while let Ok(note) = Note::decode_length_delimited(&mut rest) {
                if let Err(why) = knowledge.take(&note.method, &note.payload) {
                    fail!("the plugin 30-started was told {why}");
                }
                notes += 1;
            }
        }
        println!("  {notes} calls of plugins that dockbridge started");
        ensure!(notes > 0, "no plugin was started");
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the plugin that dockbridge starts. The plugin records its calls in a file in `notes`.
pub(crate) async fn be_started(notes: &Path) -> Outcome {
    let mut file = fs::File::create(notes.join(process::id().to_string()))?;
    let socket = std::os::unix::net::UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let reply = move |call: &Told| {
        let note = Note { method: call.method.clone(), payload: call.payload.clone() };
        file.write_all(&note.encode_length_delimited_to_vec()).unwrap();
        but_validation(call)
    };
    let plugin = Plugin::over(UnixStream::from_std(socket)?, ("30", "started"), reply).await;
    Ok(plugin.ended.await?)
}

/// Subscribes a plugin to all events except validation, because dockbridge rejects a container if a
/// validating plugin fails.
fn but_validation(call: &Told) -> Reply {
    let bit = |event: nri::Event| 1 << (i32::from(event) - 1);
    let events = (bit(nri::Event::Last) - 1) & !bit(nri::Event::ValidateContainerAdjustment);
    match call.method.as_str() {
        "Configure" => Reply::Yes(nri::ConfigureResponse { events }.encode_to_vec()),
        _ => Reply::Yes(Vec::new()),
    }
}

async fn listed(cri: &Cri) -> Outcome<Knowledge> {
    let pods = cri.sandboxes().await?.into_iter().map(|pod| pod.id);
    let containers = cri.containers().await?.into_iter().map(|one| {
        let stage = match one.state() {
            cri::ContainerState::ContainerCreated => Stage::Created,
            cri::ContainerState::ContainerRunning => Stage::Running,
            cri::ContainerState::ContainerExited => Stage::Stopped,
            cri::ContainerState::ContainerUnknown => Stage::Starting,
        };
        (one.id, one.pod_sandbox_id, stage)
    });
    Ok(Knowledge::listed(pods, containers))
}

/// A recorded call that a plugin received.
#[derive(Clone, PartialEq, prost::Message)]
struct Note {
    #[prost(string, tag = "1")]
    method: String,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
}

/// The text of the error with which plugins refuse calls at random.
pub(super) const REFUSAL: &str = "not by chance";
/// With this argument, the test program is the plugin that dockbridge starts.
pub(crate) const PLUGIN: &str = "--nri-plugin";
