//! A CRI client, several of which run at the same time. Each client creates, uses and removes pods at random.
//! Like kubelet, a client repeats failed calls that create, start, stop or remove a pod or container.

use std::{path::PathBuf, sync::Arc, time::Duration};

use dockbridge::wire::cri;
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{nri::REFUSAL, recorded::Recorded};
use crate::support::{
    cri::{Answer, Cri, Refused},
    cri_log::CriLog,
    patience::patient,
    pod::{self, Recipes, namespaces_of},
    stage::Stage,
};

/// A CRI client and its current pods.
pub(super) struct Caller {
    socket: PathBuf,
    recipes: Recipes,
    image: String,
    told: Arc<Recorded>,
    number: u32,
    random: StdRng,
    pods: Vec<Pod>,
    made: u32,
    rotations: u32,
    /// ExecSync calls in the background, for which the client waits only at its end.
    commands: JoinSet<()>,
}

/// A pod whose start succeeded.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) config: cri::PodSandboxConfig,
    pub(super) id: String,
    pub(super) containers: Vec<Container>,
}

/// A container whose creation succeeded.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) config: cri::ContainerConfig,
    pub(super) id: String,
    /// Whether the container listens at [`PORT`].
    pub(super) serves: bool,
}

impl Caller {
    /// A CRI client with its own number and random generator.
    pub(super) fn new(stage: &Stage, told: Arc<Recorded>, (number, random): (u32, StdRng)) -> Self {
        Self {
            socket: stage.bridge.socket().to_owned(),
            recipes: stage.recipes.clone(),
            image: format!("{}/busybox:1", stage.world.registry),
            told,
            number,
            random,
            pods: Vec::new(),
            made: 0,
            rotations: 0,
            commands: JoinSet::new(),
        }
    }

    /// Performs random actions until the token is cancelled, and returns the client's remaining pods.
    pub(super) async fn live(mut self, enough: CancellationToken) -> Vec<Pod> {
        while !enough.is_cancelled() {
            let has_pods = !self.pods.is_empty();
            match self.random.random_range(0..100) {
                0..25 if self.pods.len() < MOST_PODS => self.make().await,
                25..45 if has_pods => self.exec().await,
                45..60 if has_pods => self.replace().await,
                60..70 if has_pods => self.look().await,
                70..80 if has_pods => self.rotate().await,
                80..83 => self.pull().await,
                83..87 if has_pods => self.resize().await,
                87..100 if has_pods => self.end().await,
                _ => {}
            }
            if self.random.random_range(0..3) == 0 {
                self.outlast();
            }
            let pause = self.random.random_range(0..200);
            sleep(patient(Duration::from_millis(pause))).await;
        }
        self.commands.join_all().await;
        self.pods
    }

    async fn make(&mut self) {
        self.made += 1;
        let mut config = self.recipes.pod(&format!("c{}p{}", self.number, self.made));
        let serves = match self.random.random_range(0..10) {
            0..2 => {
                namespaces_of(&mut config).network = cri::NamespaceMode::Node.into();
                false
            }
            2..5 => {
                let offset = u16::try_from(self.number * 100 + self.made % 100).unwrap_or(0);
                config.port_mappings = vec![pod::port(20_000 + offset, PORT)];
                true
            }
            _ => true,
        };
        let run = async |cri: &Cri| {
            let answer = cri.run(&config).await;
            if let Err(refused) = &answer {
                self.nothing_is_left(cri, &config, refused).await;
            }
            answer
        };
        let Some(id) = self.insist("RunPodSandbox", || true, run).await else { return };
        self.told.created(&id);
        self.told.up(&id);
        let mut made = Pod { config, id, containers: Vec::new() };
        for name in ["main", "side"].iter().take(self.random.random_range(1..=2)) {
            let serves = serves && *name == "main";
            self.begin(&mut made, self.container(name, serves), serves).await;
        }
        self.pods.push(made);
    }

    /// If RunPodSandbox failed because of a CNI or NRI plugin, checks that the pod is gone, unless the error says that
    /// the clean-up failed.
    async fn nothing_is_left(&self, cri: &Cri, pod: &cri::PodSandboxConfig, refused: &Refused) {
        let why = &refused.message;
        let is_taken_back = why.contains(", ADD: ") || why.contains(REFUSAL);
        if !is_taken_back || why.contains("cleanup failed") {
            return;
        }
        let Ok(listed) = cri.sandboxes().await else { return };
        self.told.count("pods that were taken back");
        if let Some(left) = listed.iter().find(|one| one.metadata == pod.metadata) {
            self.told.breaks(format!("pod {} is left of a failed RunPodSandbox: {why}", left.id));
        }
    }

    fn container(&self, name: &str, serves: bool) -> cri::ContainerConfig {
        let serve = if serves { format!("httpd -h /www -p {PORT};") } else { String::new() };
        let line = format!(
            "trap 'exit 0' TERM; {serve} i=0; while :; do i=$((i+1)); echo $i; sleep 0.2 & wait $!; done"
        );
        self.recipes.container(name, &line)
    }

    async fn begin(&self, pod: &mut Pod, config: cri::ContainerConfig, serves: bool) {
        // If the pod has ended with the engine, no container can be created or started in it.
        let possible = || self.told.is_up(&pod.id);
        let create = async |cri: &Cri| cri.create(&pod.id, &config, &pod.config).await;
        let Some(id) = self.insist("CreateContainer", possible, create).await else { return };
        self.told.created(&id);
        let start = async |cri: &Cri| match cri.start(&id).await {
            // If an earlier call, whose answer was lost, has started the container, the start counts as
            // successful. The container may have ended with the engine.
            Err(refused) if refused.code == Code::FailedPrecondition => {
                let now = cri.container(&id).await?;
                let runs = now.state() == cri::ContainerState::ContainerRunning;
                if now.started_at > 0 { Ok(runs) } else { Err(refused) }
            }
            answer => answer.map(|()| true),
        };
        if self.insist("StartContainer", possible, start).await == Some(true) {
            self.told.up(&id);
        }
        pod.containers.push(Container { config, id, serves });
    }

    /// Runs a command in a container. If no fault was active, the command must print the expected output.
    async fn exec(&mut self) {
        let Some(one) = self.any() else { return };
        let (word, up) = (self.random.random::<u32>().to_string(), self.told.is_up(&one.id));
        let run = async |cri: &Cri| cri.exec_sync(&one.id, &["echo", &word], 10).await;
        let calm = self.told.weather.moment();
        if let Some(answer) = self.ask("ExecSync", up, run).await
            && self.told.weather.lasted(calm)
            && (answer.exit_code, answer.stdout.as_slice()) != (0, format!("{word}\n").as_bytes())
        {
            self.told.breaks(format!("ExecSync of echo {word} answered {answer:?}"));
        }
    }

    /// Starts a command that exceeds its timeout, with a child in another session, and does not wait for the
    /// answer. At the end of the story, no process of the command may be left, whatever was killed.
    fn outlast(&mut self) {
        let Some(one) = self.any() else { return };
        let limit = self.random.random_range(1..=8);
        self.told.count("commands that do not end");
        let (socket, told, id) = (self.socket.clone(), Arc::clone(&self.told), one.id);
        self.commands.spawn(async move {
            let Ok(cri) = Cri::connect(&socket).await else { return };
            let run = cri.exec_sync(&id, &OUTLASTING, limit);
            if let Ok(Err(refused)) = timeout(patient(LONGEST_CALL), run).await
                && refused.code == Code::DeadlineExceeded
            {
                told.count("commands cut short");
            }
        });
    }

    /// Replaces a container: stops and removes it, and starts the next attempt.
    async fn replace(&mut self) {
        let place = self.random.random_range(0..self.pods.len());
        let mut pod = self.pods.remove(place);
        if let Some(mut one) = pod.containers.pop() {
            self.told.stops(&one.id);
            let grace = self.random.random_range(0..3);
            let stop = async |cri: &Cri| cri.stop_container(&one.id, grace).await;
            let stopped = self.insist("StopContainer", || true, stop).await;
            self.told.leaves(&one.id);
            let remove = async |cri: &Cri| cri.remove_container(&one.id).await;
            if stopped.is_some() && self.insist("RemoveContainer", || true, remove).await.is_some()
            {
                self.told.gone(&one.id);
            }
            one.config.metadata.get_or_insert_default().attempt += 1;
            let attempt = one.config.metadata.clone().unwrap_or_default();
            one.config.log_path = format!("{}-{}/0.log", attempt.name, attempt.attempt);
            self.begin(&mut pod, one.config, one.serves).await;
        }
        self.pods.push(pod);
    }

    /// Checks that the states of a pod and of its containers do not contradict dockbridge's earlier answers.
    async fn look(&mut self) {
        let pod = self.pods[self.random.random_range(0..self.pods.len())].clone();
        let before = self.told.promises();
        let status = async |cri: &Cri| cri.sandbox(&pod.id).await;
        if let Some(status) = self.ask("PodSandboxStatus", true, status).await {
            let state = status.state().as_str_name().to_owned();
            self.told.compare_one(&before, &pod.id, &state);
        }
        for one in pod.containers {
            let before = self.told.promises();
            let status = async |cri: &Cri| cri.container(&one.id).await;
            // A failed ContainerStatus does not fail the story.
            if let Some(status) = self.ask("ContainerStatus", false, status).await {
                let state = status.state().as_str_name().to_owned();
                self.told.compare_one(&before, &one.id, &state);
            }
        }
    }

    async fn rotate(&mut self) {
        let pod = self.pods[self.random.random_range(0..self.pods.len())].clone();
        let Some(one) = pod.containers.last() else { return };
        let Ok(cri) = Cri::connect(&self.socket).await else { return };
        self.rotations += 1;
        let mut log = CriLog::of(&pod.config, &one.config).rotated(self.rotations);
        // A container that has never started has no log file.
        if log.path().exists() && log.rotate(&cri, &one.id).await.is_ok_and(|it| it.is_ok()) {
            self.told.count("rotations");
        }
    }

    /// Changes the CPU shares of a container. If dockbridge accepts the new shares and no fault was active, the
    /// container's status must show them.
    async fn resize(&mut self) {
        let Some(one) = self.any() else { return };
        let (shares, up) = (self.random.random_range(2..=2048), self.told.is_up(&one.id));
        let calm = self.told.weather.moment();
        let set = async |cri: &Cri| {
            cri.set_shares(&one.id, shares).await?;
            cri.container(&one.id).await
        };
        let Some(status) = self.ask("UpdateContainerResources", up, set).await else { return };
        let shown = status.resources.and_then(|it| it.linux).map_or(0, |it| it.cpu_shares);
        if self.told.weather.lasted(calm) && shown != shares {
            self.told.breaks(format!("{}: {shares} CPU shares are shown as {shown}", one.id));
        }
    }

    async fn pull(&mut self) {
        let pull = async |cri: &Cri| cri.pull(&self.image, None).await;
        self.ask("PullImage", true, pull).await;
    }

    async fn end(&mut self) {
        let place = self.random.random_range(0..self.pods.len());
        let pod = self.pods.remove(place);
        let ids = || pod.containers.iter().map(|one| &one.id).chain([&pod.id]);
        ids().for_each(|id| self.told.stops(id));
        let stop = async |cri: &Cri| cri.stop(&pod.id).await;
        if self.insist("StopPodSandbox", || true, stop).await.is_none() {
            return;
        }
        ids().for_each(|id| self.told.leaves(id));
        let remove = async |cri: &Cri| cri.remove(&pod.id).await;
        if self.insist("RemovePodSandbox", || true, remove).await.is_some() {
            ids().for_each(|id| self.told.gone(id));
        }
    }

    fn any(&mut self) -> Option<Container> {
        let pod = self.pods.choose(&mut self.random)?;
        pod.containers.last().cloned()
    }

    /// Makes a call until it succeeds, at most [`MOST_TRIES`] times and only while `possible` returns true.
    async fn insist<T>(
        &self,
        what: &'static str,
        possible: impl Fn() -> bool,
        call: impl AsyncFn(&Cri) -> Answer<T>,
    ) -> Option<T> {
        for _ in 0..MOST_TRIES {
            if !possible() {
                break;
            }
            if let Some(answer) = self.ask(what, true, &call).await {
                return Some(answer);
            }
            sleep(patient(Duration::from_millis(300))).await;
        }
        self.told.count("given up");
        None
    }

    /// Makes a call once. If no fault was active, the call must succeed, unless `possible` is false, an NRI
    /// plugin refused the call, or the engine died and lost the container.
    async fn ask<T>(
        &self,
        what: &'static str,
        possible: bool,
        call: impl AsyncFn(&Cri) -> Answer<T>,
    ) -> Option<T> {
        let calm = self.told.weather.moment();
        let asked = async {
            let cri = Cri::connect(&self.socket).await.map_err(|error| error.to_string())?;
            call(&cri).await.map_err(|refused| refused.to_string())
        };
        let why = match timeout(patient(LONGEST_CALL), asked).await {
            Ok(Ok(answer)) => {
                self.told.count(what);
                return Some(answer);
            }
            Ok(Err(why)) => why,
            Err(_late) => format!("no answer within {LONGEST_CALL:?}"),
        };
        // An engine that dies while it starts a container might not know after its restart that the container runs.
        // Another start then fails, because containerd or runc still has the container.
        let left = ["left a task in containerd", "already exists", "id already in use"];
        let is_there = left.iter().any(|it| why.contains(it));
        let is_lost = what == "StartContainer" && is_there;
        if is_lost && self.told.engine_died() {
            self.told.count("containers the engine lost");
            return None;
        }
        if why.contains(REFUSAL) {
            self.told.count("calls that plugins refused");
        } else if possible && self.told.weather.lasted(calm) {
            self.told.breaks(format!("{what} failed though nothing was wrong: {why}"));
        }
        self.told.count("failed calls");
        None
    }
}

/// The port at which containers with a server listen.
pub(super) const PORT: u16 = 8080;
/// A command that does not end, with a child in another session that does not end either.
pub(super) const OUTLASTING: [&str; 3] = ["sh", "-c", "setsid sleep 86399 & exec sleep 86399"];
/// The argument by which the processes of [`OUTLASTING`] are found: no other process sleeps for this many seconds.
pub(super) const DAY: &str = "86399";
const MOST_PODS: usize = 3;
const MOST_TRIES: u32 = 60;
const LONGEST_CALL: Duration = Duration::from_secs(60);
