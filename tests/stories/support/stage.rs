//! The setting of one story: its own directories, a dockbridge, the engine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    bridge::{Bridge, Folders},
    cri::Cri,
    engine::Engine,
    failure::{Outcome, ensure},
    leftovers,
    pod::Recipes,
    world::World,
};

/// The stage of one story.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The world around it.
    pub(crate) world: World,
    /// The engine, from beside.
    pub(crate) engine: Engine,
    /// The folders dockbridge was given.
    pub(crate) folders: Folders,
    /// Configurations.
    pub(crate) recipes: Recipes,
    /// dockbridge.
    pub(crate) bridge: Bridge,
    /// A client connected to it.
    pub(crate) cri: Cri,
}

impl Stage {
    /// A dockbridge that connects pods by CNI.
    pub(crate) async fn cni(world: &World, story: &str) -> Outcome<Self> {
        Self::set(world, story, ("cni", &world.docker), &[]).await
    }

    /// A dockbridge that uses the engine's own network.
    pub(crate) async fn docker(world: &World, story: &str) -> Outcome<Self> {
        Self::told(world, story, &[]).await
    }

    /// A dockbridge that connects pods by CNI and reaches the engine through another socket.
    pub(crate) async fn behind(world: &World, story: &str, docker: &Path) -> Outcome<Self> {
        Self::set(world, story, ("cni", docker), &[]).await
    }

    /// A dockbridge that uses the engine's own network, with further flags.
    pub(crate) async fn told(world: &World, story: &str, flags: &[&str]) -> Outcome<Self> {
        Self::set(world, story, ("docker", &world.docker), flags).await
    }

    /// A dockbridge that connects pods by CNI and serves NRI plugins, and their socket.
    pub(crate) async fn with_plugins(world: &World, story: &str) -> Outcome<(Self, PathBuf)> {
        Self::with_plugins_behind(world, story, &world.docker).await
    }

    /// Likewise, and it reaches the engine through another socket. Plugins in `plugins` are started.
    pub(crate) async fn with_plugins_behind(
        world: &World,
        story: &str,
        docker: &Path,
    ) -> Outcome<(Self, PathBuf)> {
        let root = world.root.join("tmp").join(story);
        let socket = root.join("run/nri/nri.sock");
        let (at, to_start) = (socket.display().to_string(), root.join("plugins"));
        let to_start = to_start.display().to_string();
        let flags = [
            ["--nri", "on", "--nri-socket", &at, "--nri-request-timeout", "1s"],
            ["--nri-plugin-dir", &to_start, "--nri-config-dir", &to_start, "--log-level", "debug"],
        ];
        let stage = Self::set(world, story, ("cni", docker), &flags.concat()).await?;
        Ok((stage, socket))
    }

    /// A dockbridge as on a node: it connects pods by CNI, and its log tells what matters.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) async fn usual(world: &World, story: &str) -> Outcome<Self> {
        Self::set(world, story, ("cni", &world.docker), &["--log-level", "info"]).await
    }

    async fn set(
        world: &World,
        story: &str,
        (network, docker): (&str, &Path),
        flags: &[&str],
    ) -> Outcome<Self> {
        let folders = Folders::below(&world.root.join("tmp").join(story))?;
        let bridge = Bridge::start(world, &folders, network, docker, flags).await?;
        Ok(Self {
            world: world.clone(),
            engine: Engine::of(world.clone()),
            recipes: Recipes::new(world, &folders, story),
            cri: bridge.cri().await?,
            folders,
            bridge,
        })
    }

    /// Runs a pod's containers in order; the ids.
    pub(crate) async fn up(
        &self,
        sandbox: &str,
        pod: &dockbridge::wire::cri::PodSandboxConfig,
        containers: &[dockbridge::wire::cri::ContainerConfig],
    ) -> Outcome<Vec<String>> {
        let mut ids = Vec::new();
        for container in containers {
            let id = self.cri.create(sandbox, container, pod).await?;
            self.cri.start(&id).await?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Ends the story: dockbridge stops as told, and nothing is left.
    pub(crate) async fn leaves_nothing(self) -> Outcome {
        self.leaves_nothing_but(|_| false).await
    }

    /// Likewise, but for what is not dockbridge's to clear away.
    pub(crate) async fn leaves_nothing_but(mut self, others: impl Fn(&str) -> bool) -> Outcome {
        self.bridge.stop().await?;
        let mut left = leftovers::search(&self.world, &self.engine, &self.folders).await?;
        left.retain(|thing| !others(thing));
        ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    }
}

/// Puts the world in order after a story that failed, so that the next one is judged alone.
pub(crate) async fn sweep(world: &World) {
    let engine = Engine::of(world.clone());
    engine.control(&["start"]).await.unwrap_or(());
    for id in engine.containers().await.unwrap_or_default() {
        drop(engine.docker(&["rm", "-f", "-v", &id]).await);
    }
    let root = world.root.display();
    let line = format!(
        "grep -o ' {root}/tmp/[^ ]*' /proc/self/mountinfo | xargs -r -n1 umount -l; \
         rm -rf {root}/tmp/* {leases}/[0-9]* {cache}/results; \
         iptables -t nat -F CNI-HOSTPORT-DNAT; \
         for c in $(iptables -t nat -S | sed -n 's/^-N \\(CNI-DN-.*\\)/\\1/p'); \
         do iptables -t nat -F $c; iptables -t nat -X $c; done",
        leases = world.cni_leases.display(),
        cache = world.cni_cache.display(),
    );
    drop(tokio::process::Command::new("sh").args(["-c", &line]).output().await);
}

/// How long a story may take; the longest takes half of it where nothing else is at work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(400);
