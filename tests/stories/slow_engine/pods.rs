//! Creates different pods on a node: in each network mode, stopped, with containers that run, have ended with
//! or without an error, or were never started.

use std::time::Duration;

use dockbridge::wire::cri;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::support::{
    bridge::Bridge,
    cri::Cri,
    cri_log::CriLog,
    failure::{Outcome, ensure_eq, fail},
    patience::Looks,
    pod::{self, Recipes, namespaces_of},
    stage::Stage,
};

/// The pods of the story.
#[derive(Debug)]
pub(crate) struct Node {
    /// The pods in the order of their plans. The first pod serves HTTP on [`PORT`].
    pub(crate) pods: Vec<Pod>,
}

/// A pod of the story.
#[derive(Debug)]
pub(crate) struct Pod {
    /// The id of the pod's sandbox.
    pub(crate) id: String,
    pub(crate) config: cri::PodSandboxConfig,
    /// The pod's two containers.
    pub(crate) containers: Vec<Workload>,
}

/// A container of a pod.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) id: String,
    pub(crate) config: cri::ContainerConfig,
    /// The line that the container prints at its start, or `None` if it is not started.
    pub(crate) says: Option<String>,
}

/// The plan of a pod, which depends on the pod's number.
#[derive(Clone, Copy, Debug)]
struct Plan(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Cni,
    Engine,
    Host,
}

impl Node {
    /// Creates this many pods, and waits until the containers that should end have ended.
    pub(crate) async fn gather(stage: &mut Stage, pods: usize) -> Outcome<Self> {
        // The network mode is a setting of dockbridge, so pods on the engine's network are created first, by a
        // dockbridge with that mode.
        let is_earlier = |plan: &Plan| plan.network() == Network::Engine;
        let (earlier, later): (Vec<_>, Vec<_>) = (0..pods).map(Plan).partition(is_earlier);
        stage.bridge.stop().await?;
        let (world, folders) = (&stage.world, &stage.folders);
        let mut other = Bridge::start(world, folders, "docker", &world.docker, &[]).await?;
        let mut all = gather(&other.cri().await?, &stage.recipes, earlier).await?;
        other.stop().await?;
        stage.bridge.spawn().await?;
        stage.cri = stage.bridge.cri().await?;
        all.extend(gather(&stage.cri, &stage.recipes, later).await?);
        all.sort_by_key(|(number, _)| *number);
        let node = Self { pods: all.into_iter().map(|(_, pod)| pod).collect() };
        node.resize(&stage.cri).await?;
        node.until_ended(&stage.cri).await?;
        Ok(node)
    }

    /// The ids of all pods and of all containers.
    pub(crate) fn ids(&self) -> (Vec<&str>, Vec<&str>) {
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        (self.pods.iter().map(|pod| &*pod.id).collect(), containers.map(|one| &*one.id).collect())
    }

    /// The container that serves HTTP, and its pod.
    pub(crate) fn web(&self) -> (&Pod, &Workload) {
        (&self.pods[0], &self.pods[0].containers[0])
    }

    /// Removes all pods of the story.
    pub(crate) async fn leave(&self, cri: &Cri) -> Outcome {
        let ends = self.pods.iter().map(|pod| {
            let (cri, id) = (cri.clone(), pod.id.clone());
            async move { cri.end(&id).await }
        });
        let ends: Vec<_> = ends.collect();
        stream::iter(ends).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Waits until each log has the line that its container printed, and the web server's log also has the
    /// lines `since`.
    pub(crate) async fn until_logged(&self, since: &str) -> Outcome {
        let web = &self.web().1.id;
        for pod in &self.pods {
            for container in &pod.containers {
                let more = if container.id == *web { since } else { "" };
                container.until_logged(&pod.config, more).await?;
            }
        }
        Ok(())
    }

    /// Changes the limits of each pod that is not stopped, and of its first container. dockbridge saves the limits of
    /// pods in its state directory, and Docker stores those of containers.
    async fn resize(&self, cri: &Cri) -> Outcome {
        let runtime = || cri.runtime.clone();
        let more = cri::LinuxContainerResources {
            memory_limit_in_bytes: 96 << 20,
            cpu_shares: 200,
            ..Default::default()
        };
        let up = (0..).zip(&self.pods).filter(|(number, _)| !Plan(*number).is_stopped());
        for (_, pod) in up {
            let of_container = cri::UpdateContainerResourcesRequest {
                container_id: pod.containers[0].id.clone(),
                linux: Some(more.clone()),
                ..Default::default()
            };
            runtime().update_container_resources(of_container).await?;
            let of_pod = cri::UpdatePodSandboxResourcesRequest {
                pod_sandbox_id: pod.id.clone(),
                overhead: None,
                resources: Some(more.clone()),
            };
            runtime().update_pod_sandbox_resources(of_pod).await?;
        }
        Ok(())
    }

    async fn until_ended(&self, cri: &Cri) -> Outcome {
        for (number, pod) in self.pods.iter().enumerate() {
            let Some(code) = Plan(number).ends() else { continue };
            let id = &pod.containers[1].id;
            let mut looks = Looks::every(Duration::from_millis(50));
            let mut status = cri.container(id).await?;
            while status.state() != cri::ContainerState::ContainerExited {
                if !looks.again().await {
                    fail!("container {id} does not end");
                }
                status = cri.container(id).await?;
            }
            ensure_eq!(status.exit_code, code, "{id}");
        }
        Ok(())
    }
}

impl Workload {
    async fn until_logged(&self, pod: &cri::PodSandboxConfig, more: &str) -> Outcome {
        let Some(says) = &self.says else { return Ok(()) };
        let (log, expected) = (CriLog::of(pod, &self.config), format!("{says}{more}"));
        let mut looks = Looks::every(Duration::from_millis(50));
        let mut text = Ok(String::new());
        while looks.again().await {
            text = log.text("stdout");
            if text.as_ref().is_ok_and(|text| *text == expected) {
                return Ok(());
            }
        }
        fail!("{} has {text:?}, expected {expected:?}", log.path().display());
    }
}

async fn gather(cri: &Cri, recipes: &Recipes, plans: Vec<Plan>) -> Outcome<Vec<(usize, Pod)>> {
    let pods = plans.into_iter().map(|plan| {
        let (cri, recipes) = (cri.clone(), recipes.clone());
        async move { Ok((plan.0, plan.make(&cri, &recipes).await?)) }
    });
    let pods: Vec<_> = pods.collect();
    stream::iter(pods).buffer_unordered(AT_ONCE).try_collect().await
}

impl Plan {
    const fn network(self) -> Network {
        match self.0 % 5 {
            1 => Network::Engine,
            2 => Network::Host,
            _ => Network::Cni,
        }
    }

    const fn is_stopped(self) -> bool {
        self.0 % 4 == 3
    }

    /// The exit code with which the pod's second container ends on its own, or `None` if it does not.
    const fn ends(self) -> Option<i32> {
        match self.0 % 4 {
            0 => Some(0),
            1 => Some(3),
            _ => None,
        }
    }

    /// Whether the pod's second container is started.
    const fn begins(self) -> bool {
        self.0 % 8 != 2
    }

    fn config(self, recipes: &Recipes) -> cri::PodSandboxConfig {
        let mut config = recipes.pod(&format!("p{}", self.0));
        if self.network() == Network::Host {
            namespaces_of(&mut config).network = cri::NamespaceMode::Node.into();
        }
        if self.0 == 0 {
            config.port_mappings = vec![pod::port(PORT, 80)];
        }
        config
    }

    /// The names and commands of the pod's two containers, and whether they are started.
    fn lines(self) -> [(&'static str, String, bool); 2] {
        let sleep = "trap 'exit 0' TERM; sleep 86400 & wait $!";
        let main = if self.0 == 0 { "exec httpd -f -h /www -p 80" } else { sleep };
        let side = self.ends().map_or_else(|| sleep.to_owned(), |code| format!("exit {code}"));
        [("main", main.to_owned(), true), ("side", side, self.begins())]
    }

    async fn make(self, cri: &Cri, recipes: &Recipes) -> Outcome<Pod> {
        let config = self.config(recipes);
        let sandbox = cri.run(&config).await?;
        let mut containers = Vec::new();
        for (name, line, begins) in self.lines() {
            let says = format!("{name} of {}", self.0);
            let container = recipes.container(name, &format!("echo {says}; {line}"));
            let id = cri.create(&sandbox, &container, &config).await?;
            if begins {
                cri.start(&id).await?;
            }
            let says = begins.then(|| says + "\n");
            containers.push(Workload { id, config: container, says });
        }
        if self.is_stopped() {
            for container in &containers {
                container.until_logged(&config, "").await?;
            }
            cri.stop(&sandbox).await?;
        }
        Ok(Pod { id: sandbox, config, containers })
    }
}

/// The first pod's port on the host.
pub(crate) const PORT: u16 = 18086;
/// The number of pods that are created or removed at the same time.
const AT_ONCE: usize = 8;
