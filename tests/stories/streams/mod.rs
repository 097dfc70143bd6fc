//! Tests exec and attach with independent clients of every protocol.

use std::time::Duration;

use dockbridge::wire::cri;
use tokio::time::{Instant, sleep};

use crate::{
    execs::until,
    support::{
        failure::{Failure, Outcome, ensure_eq, fail},
        patience::patient,
        process::Process,
        remote::{SPDY, Session, Wish},
        stage::Stage,
        world::World,
    },
};

pub(crate) mod attach;
pub(crate) mod bulk;
pub(crate) mod disconnects;
pub(crate) mod exec;
pub(crate) mod hostile;
pub(crate) mod hostile_crowd;
pub(crate) mod tokens;

/// A pod with one container, in which the stories run commands.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) pod: cri::PodSandboxConfig,
    /// The id of the pod's sandbox.
    pub(crate) sandbox: String,
    pub(crate) container: String,
}

impl Scene {
    /// Starts the pod with a container that only waits.
    pub(crate) async fn quiet(world: &World, story: &str) -> Outcome<Self> {
        let stage = Stage::cni(world, story).await?;
        let main = stage.recipes.sleeper("main");
        Self::with(stage, &main).await
    }

    /// Starts the pod with the container `main`.
    pub(crate) async fn with(stage: Stage, main: &cri::ContainerConfig) -> Outcome<Self> {
        let pod = stage.recipes.pod("streamed");
        let sandbox = stage.cri.run(&pod).await?;
        let ids = stage.up(&sandbox, &pod, std::slice::from_ref(main)).await?;
        Ok(Self { stage, pod, sandbox, container: ids[0].clone() })
    }

    /// Adds a container to the pod.
    pub(crate) async fn add(&self, main: &cri::ContainerConfig) -> Outcome<String> {
        Ok(self.stage.up(&self.sandbox, &self.pod, std::slice::from_ref(main)).await?.remove(0))
    }

    /// The process of dockbridge.
    pub(crate) fn bridge(&self) -> Outcome<Process> {
        self.stage.bridge.pid().map(Process).ok_or_else(|| Failure("no dockbridge".to_owned()))
    }

    /// The number of dockbridge's file descriptors before the story opens a stream. First runs an exec to its end and
    /// waits until dockbridge reads the container's log, so that the count includes descriptors that stay open.
    pub(crate) async fn descriptors(&self) -> Outcome<usize> {
        let mut first =
            Session::exec(&self.stage.cri, SPDY, &self.container, &["true"], Wish::Output).await?;
        ensure_eq!(first.collect().await?.code()?, 0);
        let bridge = self.bridge()?;
        until(|| Ok(bridge.holds()?.iter().any(|held| held.ends_with("-json.log")))).await?;
        bridge.descriptors()
    }

    /// Whether a process with `words` in its command line runs in the container.
    pub(crate) async fn runs(&self, words: &str) -> Outcome<bool> {
        let table =
            self.stage.engine.docker(&["exec", &self.container, "ps", "-o", "args"]).await?;
        Ok(table.lines().any(|line| line.contains(words)))
    }

    /// Waits until a process with `words` in its command line runs, or until no such process runs if `wanted` is false.
    pub(crate) async fn until_runs(&self, words: &str, wanted: bool) -> Outcome {
        let deadline = Instant::now() + patient(Duration::from_secs(20));
        while self.runs(words).await? != wanted {
            if Instant::now() > deadline {
                fail!("{words:?} {}", if wanted { "never ran" } else { "still runs" });
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Removes the pod, and checks that nothing is left.
    pub(crate) async fn ends(self) -> Outcome {
        self.stage.cri.clear().await?;
        self.stage.leaves_nothing().await
    }
}
