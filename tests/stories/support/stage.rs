//! The environment of one story: its directories, a dockbridge, and the world's engine.

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

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) engine: Engine,
    pub(crate) folders: Folders,
    pub(crate) recipes: Recipes,
    pub(crate) bridge: Bridge,
    pub(crate) cri: Cri,
}

impl Stage {
    /// Starts a dockbridge that connects pods by CNI.
    pub(crate) async fn cni(world: &World, story: &str) -> Outcome<Self> {
        Self::set(world, story, ("cni", &world.docker), &[]).await
    }

    /// Starts a dockbridge that uses the engine's own network.
    pub(crate) async fn docker(world: &World, story: &str) -> Outcome<Self> {
        Self::told(world, story, &[]).await
    }

    /// Starts a dockbridge that connects pods by CNI and reaches the engine through another socket.
    pub(crate) async fn behind(world: &World, story: &str, docker: &Path) -> Outcome<Self> {
        Self::set(world, story, ("cni", docker), &[]).await
    }

    /// Starts a dockbridge that uses the engine's own network, with further flags.
    pub(crate) async fn told(world: &World, story: &str, flags: &[&str]) -> Outcome<Self> {
        Self::set(world, story, ("docker", &world.docker), flags).await
    }

    /// Starts a dockbridge that uses CNI and serves NRI plugins, and also returns the plugins' socket.
    pub(crate) async fn with_plugins(world: &World, story: &str) -> Outcome<(Self, PathBuf)> {
        Self::with_plugins_behind(world, story, &world.docker, "60s").await
    }

    /// Starts a dockbridge that serves NRI plugins and reaches the engine through the socket `docker`, with a time
    /// limit for the plugins' answers. dockbridge starts the plugins in the story's directory `plugins`.
    pub(crate) async fn with_plugins_behind(
        world: &World,
        story: &str,
        docker: &Path,
        limit: &str,
    ) -> Outcome<(Self, PathBuf)> {
        let root = world.root.join("tmp").join(story);
        let socket = root.join("run/nri/nri.sock");
        let (at, to_start) = (socket.display().to_string(), root.join("plugins"));
        let to_start = to_start.display().to_string();
        let flags = [
            ["--nri", "on", "--nri-socket", &at, "--nri-request-timeout", limit],
            ["--nri-plugin-dir", &to_start, "--nri-config-dir", &to_start, "--log-level", "debug"],
        ];
        let stage = Self::set(world, story, ("cni", docker), &flags.concat()).await?;
        Ok((stage, socket))
    }

    /// Starts a dockbridge as on a node: it uses CNI, and logs at the default level.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) async fn usual(world: &World, story: &str) -> Outcome<Self> {
        Self::set(world, story, ("cni", &world.docker), &["--log-level", "info"]).await
    }

    /// Starts a dockbridge that uses CNI and logs at the level `trace`.
    pub(crate) async fn tracing(world: &World, story: &str) -> Outcome<Self> {
        Self::set(world, story, ("cni", &world.docker), &["--log-level", "trace"]).await
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

    /// Creates and starts a pod's containers in order, and returns their ids.
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

    /// Ends the story: stops dockbridge, and checks that [`leftovers::search`] finds nothing.
    pub(crate) async fn leaves_nothing(self) -> Outcome {
        self.leaves_nothing_but(|_| false).await
    }

    /// Ends the story like [`Self::leaves_nothing`], but ignores the leftovers for which `others` returns true.
    pub(crate) async fn leaves_nothing_but(mut self, others: impl Fn(&str) -> bool) -> Outcome {
        self.bridge.stop().await?;
        let mut left = leftovers::search(&self.world, &self.engine, &self.folders).await?;
        left.retain(|thing| !others(thing));
        ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    }
}

/// Cleans up the world after a failed story, so that the next story is not affected.
pub(crate) async fn sweep(world: &World) {
    let engine = Engine::of(world.clone());
    engine.control(&["start"]).await.unwrap_or(());
    for id in engine.containers().await.unwrap_or_default() {
        drop(engine.docker(&["rm", "-f", "-v", &id]).await);
    }
    engine.control(&["back"]).await.unwrap_or(());
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

/// How long a story without its own limit may take. On an idle machine, most stories take less than two minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1200);
