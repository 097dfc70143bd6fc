//! Runs pods of several kinds and plain containers for comparison, and finds out what an exchange of the
//! engine did to each of them.

use std::{collections::BTreeMap, fmt, fs};

use dockbridge::wire::cri::{self, ContainerState as C, PodSandboxState as S};
use tokio::task::JoinSet;
use tonic::Code;

use crate::{
    pods::until_exited,
    support::{
        cri::Cri,
        cri_log::CriLog,
        engine::Engine,
        failure::{Failure, Outcome, ensure, ensure_eq},
        http, pod,
        stage::Stage,
    },
    user_namespaces::{mapped, mapped_pod},
};

/// The kinds of pods in the stories about an exchange of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The pod has a port of the host.
    Port,
    /// The pod is in the host's network.
    Host,
    /// The first of the pod's containers has ended.
    Ended,
    /// The pod has a user namespace.
    Mapped,
}

/// What happened to the main process of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Survives,
    Ends,
    /// The process runs, but the engine does not show its container as running with this process.
    Lost,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Survives => "survives",
            Self::Ends => "ends",
            Self::Lost => "is lost",
        })
    }
}

/// What happened to the pods and plain containers in an exchange.
#[derive(Clone, Debug)]
pub(super) struct Fates {
    pub(super) plain: Vec<Fate>,
    pub(super) pods: Vec<Fate>,
    /// The pods' containers that did not survive, although the plain container that the same engine started did.
    pub(super) failed: Vec<String>,
}

impl Fates {
    /// How many of the containers or pods survived, as text.
    pub(super) fn count(fates: &[Fate]) -> String {
        let kept = fates.iter().filter(|fate| **fate == Fate::Survives).count();
        format!("{kept} of {}", fates.len())
    }

    /// Whether all plain containers that ran before the exchange survived.
    pub(super) fn are_kept(&self) -> bool {
        self.plain.iter().all(|fate| *fate == Fate::Survives)
    }
}

/// A container's main process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: String,
    started_at: String,
    /// The index of the plain container that the same engine started.
    plain: usize,
}

impl Process {
    /// The main processes of those containers that run, by the id of the container.
    async fn of(engine: &Engine, ids: &[&str], plain: usize) -> Outcome<BTreeMap<String, Self>> {
        let format = "{{.Id}} {{.State.Running}} {{.State.Pid}} {{.State.StartedAt}}";
        // `docker inspect` fails if a container is missing, but first prints the other containers.
        let output = engine.try_docker(&[&["inspect", "-f", format][..], ids].concat()).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let running = words.filter_map(|words| match words[..] {
            [id, "true", pid, started_at] => {
                let (pid, started_at) = (pid.to_owned(), started_at.to_owned());
                Some((id.to_owned(), Self { pid, started_at, plain }))
            }
            _ => None,
        });
        Ok(running.collect())
    }

    fn fate(&self, now: Option<&Self>) -> Fate {
        match now {
            Some(now) if now.pid == self.pid && now.started_at == self.started_at => Fate::Survives,
            _ if fs::metadata(format!("/proc/{}", self.pid)).is_ok() => Fate::Lost,
            _ => Fate::Ends,
        }
    }
}

/// A pod with its containers.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) kind: Kind,
    number: u16,
    pub(super) config: cri::PodSandboxConfig,
    pub(super) containers: Vec<cri::ContainerConfig>,
    pub(super) sandbox: String,
    pub(super) ids: Vec<String>,
}

impl Pod {
    /// Starts a pod and its containers.
    async fn start(cri: Cri, mut pod: Self) -> Outcome<Self> {
        pod.sandbox = cri.run(&pod.config).await?;
        pod.ids.clear();
        for container in &pod.containers {
            let id = cri.create(&pod.sandbox, container, &pod.config).await?;
            cri.start(&id).await?;
            pod.ids.push(id);
        }
        if pod.kind == Kind::Ended {
            ensure_eq!(until_exited(&cri, &pod.ids[0]).await?.exit_code, 3);
        }
        Ok(pod)
    }

    fn of(stage: &Stage, kind: Kind, number: u16) -> Self {
        let (recipes, name) = (&stage.recipes, format!("p{number}"));
        let counting = recipes.container("counting", COUNT);
        let mut config = recipes.pod(&name);
        let mut containers = vec![counting];
        match kind {
            Kind::Port => {
                config.port_mappings = vec![pod::port(FIRST_PORT + number, 80)];
                containers.push(recipes.web("web", 80));
            }
            Kind::Host => {
                config.hostname = String::new();
                pod::namespaces_of(&mut config).network = cri::NamespaceMode::Node.into();
                let network = &mut pod::namespaces_in(&mut containers[0]).network;
                *network = cri::NamespaceMode::Node.into();
            }
            Kind::Ended => containers.insert(0, recipes.container("ended", "exit 3")),
            Kind::Mapped => {
                config = mapped_pod(stage, &name);
                containers = containers.into_iter().map(mapped).collect();
            }
        }
        Self { kind, number, config, containers, sandbox: String::new(), ids: Vec::new() }
    }

    /// The ids of the pod's sandbox and of the pod's containers that should run.
    fn running(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.sandbox).chain(&self.ids[self.first_running()..]).map(String::as_str)
    }

    /// The index of the first running container, which prints numbers.
    fn first_running(&self) -> usize {
        usize::from(self.kind == Kind::Ended)
    }

    /// The number of lines in the counting container's CRI log so far. Fails unless Docker's log begins with these
    /// lines. Docker's log can have gaps: a dockerd that is killed loses the output that it has read but not written
    /// yet, so numbers can be missing in both logs.
    async fn lines(&self, engine: &Engine) -> Outcome<usize> {
        let counting = self.first_running();
        let ours = CriLog::of(&self.config, &self.containers[counting]).text("stdout")?;
        let engines = engine.docker(&["logs", &self.ids[counting]]).await?;
        let mut expected = engines.lines();
        for (number, line) in ours.lines().enumerate() {
            let expected = expected.next().unwrap_or("(end)");
            ensure_eq!(line, expected, "line {number} of the log of {:?}", self.config.metadata);
        }
        Ok(ours.lines().count())
    }

    /// Checks that a command runs in the pod with the right user mapping, and that the pod [serves](Self::serves).
    async fn works(&self, stage: &Stage) -> Outcome {
        let counting = &self.ids[self.first_running()];
        let told = stage.cri.exec_sync(counting, &["cat", "/proc/self/uid_map"], 20).await?;
        let is_mapped = String::from_utf8_lossy(&told.stdout).contains(" 200000 ");
        ensure_eq!(is_mapped, self.kind == Kind::Mapped, "the users of {counting}");
        self.serves(stage).await
    }

    /// Checks that the pod's log continues, and that the pod's port, if it has one, answers.
    pub(super) async fn serves(&self, stage: &Stage) -> Outcome {
        let Stage { cri, engine, .. } = stage;
        let before = self.lines(engine).await?;
        if self.kind == Kind::Port {
            let address = cri.sandbox(&self.sandbox).await?.network.unwrap_or_default().ip;
            let host = format!("127.0.0.1:{}", FIRST_PORT + self.number);
            for at in [format!("{address}:80"), host] {
                ensure!(
                    http::get(&at).await?.contains("dockbridge world"),
                    "{at} is not a web server"
                );
            }
        }
        let mut looks = super::soon();
        while self.lines(engine).await? <= before {
            ensure!(looks.again().await, "the log of {} ends at line {before}", self.sandbox);
        }
        Ok(())
    }
}

/// The pods of a story, and a plain container from each engine so far.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) pods: Vec<Pod>,
    plain: Vec<String>,
    processes: BTreeMap<String, Process>,
}

impl Crew {
    /// Starts `number` pods at the same time, of these kinds in turn, and then a plain container.
    pub(super) async fn start(stage: &Stage, kinds: &[Kind], number: u16) -> Outcome<Self> {
        let of = |(number, kind): (u16, &Kind)| Pod::of(stage, *kind, number);
        let pods = (0..number).zip(kinds.iter().cycle()).map(of).collect();
        let mut crew = Self { pods, plain: Vec::new(), processes: BTreeMap::new() };
        crew.replace(stage, &crew.pods.clone()).await?;
        crew.run_plain(stage).await?;
        crew.remember(&stage.engine).await?;
        Ok(crew)
    }

    async fn run_plain(&mut self, stage: &Stage) -> Outcome {
        let name = format!("plain-{}", self.plain.len());
        let run = ["run", "-d", "--name", &name, &stage.world.image, "sleep", "100000"];
        self.plain.push(stage.engine.docker(&run).await?);
        Ok(())
    }

    /// Records the main processes of all running containers. Processes that were recorded before keep the
    /// plain container with which they are compared.
    async fn remember(&mut self, engine: &Engine) -> Outcome {
        let ids: Vec<&str> = self.pods.iter().flat_map(Pod::running).collect();
        let plain = self.plain.iter().map(String::as_str);
        let all: Vec<&str> = ids.iter().copied().chain(plain).collect();
        let mut processes = Process::of(engine, &all, self.plain.len() - 1).await?;
        for id in ids {
            ensure!(processes.contains_key(id), "{id} does not run");
        }
        for (id, process) in &mut processes {
            if let Some(before) = self.processes.get(id) {
                process.plain = before.plain;
            }
        }
        self.processes = processes;
        Ok(())
    }

    /// Finds out what happened since [`Self::remember`]. The fate of a pod is the worst fate of the containers in
    /// [`Pod::running`].
    pub(super) async fn fates(&self, engine: &Engine) -> Outcome<Fates> {
        let ids: Vec<&str> = self.processes.keys().map(String::as_str).collect();
        let now = Process::of(engine, &ids, 0).await?;
        let fate = |id: &str| self.processes.get(id).map_or(Fate::Ends, |it| it.fate(now.get(id)));
        let of_pod = |pod: &Pod| pod.running().map(fate).max().unwrap_or(Fate::Ends);
        let fails = |id: &&str| {
            let plain = &self.plain[self.processes[*id].plain];
            fate(id) != Fate::Survives && fate(plain) == Fate::Survives
        };
        let running = self.plain.iter().filter(|plain| self.processes.contains_key(*plain));
        Ok(Fates {
            plain: running.map(|plain| fate(plain)).collect(),
            pods: self.pods.iter().map(of_pod).collect(),
            failed: self
                .pods
                .iter()
                .flat_map(Pod::running)
                .filter(fails)
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Whether dockbridge shows a pod and its containers as if they had survived. If not, the inner error says why not.
    pub(super) async fn shown(cri: &Cri, pod: &Pod) -> Outcome<Result<(), String>> {
        let state = match cri.sandbox(&pod.sandbox).await {
            Err(refused) if refused.code == Code::NotFound => return Ok(Err(refused.to_string())),
            status => status?.state(),
        };
        if state != S::SandboxReady {
            return Ok(Err(format!("{} is {state:?}", pod.sandbox)));
        }
        for (at, id) in pod.ids.iter().enumerate() {
            let status = cri.container(id).await?;
            let has_ended = pod.kind == Kind::Ended && at == 0;
            let expected = if has_ended { C::ContainerExited } else { C::ContainerRunning };
            if status.state() != expected || has_ended && status.exit_code != 3 {
                return Ok(Err(format!("{id} is {:?}, {}", status.state(), status.exit_code)));
            }
        }
        Ok(Ok(()))
    }

    /// Checks that every pod works.
    pub(super) async fn works(&self, stage: &Stage) -> Outcome {
        for pod in &self.pods {
            let named = |Failure(why)| Failure(format!("{:?}: {why}", pod.kind));
            pod.works(stage).await.map_err(named)?;
        }
        Ok(())
    }

    /// Replaces the pods that did not survive, as kubelet does. If all pods survived, restarts a container of the
    /// first pod.
    pub(super) async fn renew(&mut self, stage: &Stage, fates: &Fates) -> Outcome {
        let ended = self.pods.iter().zip(&fates.pods).filter(|(_, fate)| **fate != Fate::Survives);
        let ended: Vec<Pod> = ended.map(|(pod, _)| pod.clone()).collect();
        for pod in &ended {
            stage.cri.end(&pod.sandbox).await?;
        }
        self.replace(stage, &ended).await?;
        if ended.is_empty() {
            self.restart_a_container(stage).await?;
        }
        self.run_plain(stage).await?;
        self.remember(&stage.engine).await
    }

    async fn replace(&mut self, stage: &Stage, pods: &[Pod]) -> Outcome {
        let mut starting = JoinSet::new();
        for pod in pods {
            let mut pod = pod.clone();
            let metadata = pod.config.metadata.get_or_insert_default();
            metadata.attempt += u32::from(!pod.sandbox.is_empty());
            for container in &mut pod.containers {
                next_attempt(container, !pod.sandbox.is_empty());
            }
            starting.spawn(Pod::start(stage.cri.clone(), pod));
        }
        while let Some(started) = starting.join_next().await {
            let started = started??;
            if let Some(place) = self.pods.iter_mut().find(|pod| pod.number == started.number) {
                *place = started;
            }
        }
        Ok(())
    }

    /// Restarts a container within its pod, as kubelet does.
    async fn restart_a_container(&mut self, stage: &Stage) -> Outcome {
        let (cri, pod) = (&stage.cri, &mut self.pods[0]);
        let counting = pod.first_running();
        let old = std::mem::take(&mut pod.ids[counting]);
        cri.stop_container(&old, 10).await?;
        ensure_eq!(cri.container(&old).await?.exit_code, 0, "{old} was killed");
        next_attempt(&mut pod.containers[counting], true);
        let id = cri.create(&pod.sandbox, &pod.containers[counting], &pod.config).await?;
        cri.start(&id).await?;
        cri.remove_container(&old).await?;
        pod.ids[counting] = id;
        Ok(())
    }

    /// Removes the plain containers and every pod.
    pub(super) async fn end(&self, stage: &Stage) -> Outcome {
        let plain: Vec<&str> = self.plain.iter().map(String::as_str).collect();
        stage.engine.docker(&[&["rm", "-f"][..], &plain].concat()).await?;
        let mut ending = JoinSet::new();
        for pod in &self.pods {
            let (cri, sandbox) = (stage.cri.clone(), pod.sandbox.clone());
            ending.spawn(async move { cri.end(&sandbox).await });
        }
        while let Some(ended) = ending.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// Raises a container's attempt if `is_next`, and sets the path of its log, with one file per attempt, as kubelet does.
fn next_attempt(container: &mut cri::ContainerConfig, is_next: bool) {
    let metadata = container.metadata.get_or_insert_default();
    metadata.attempt += u32::from(is_next);
    container.log_path = format!("{}-{}/0.log", metadata.name, metadata.attempt);
}

/// A command that prints numbers and ends at once at SIGTERM. The command prints only two lines a second,
/// because 30 of these containers in each of several worlds run on two cores.
const COUNT: &str =
    "trap 'exit 0' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.5 & wait $!; done";
/// The host port of the first pod.
const FIRST_PORT: u16 = 18201;
