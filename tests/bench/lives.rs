//! The steps of a pod's life, for each CRI server that is compared and for direct engine calls.

use std::{fs, path::Path, time::Instant};

use crate::{
    plugins::Plugins,
    raw::RawEngine,
    recording::Recording,
    support::{cri::Cri, failure::Outcome, pod::Recipes, world::World},
    table::Table,
};

/// A pod's life through a CRI endpoint.
#[derive(Debug)]
pub(crate) struct CriLife<'a> {
    contestant: &'static str,
    cri: &'a Cri,
    recipes: &'a Recipes,
}

impl<'a> CriLife<'a> {
    /// Lives of pods through the CRI server `contestant`.
    pub(crate) const fn new(contestant: &'static str, cri: &'a Cri, recipes: &'a Recipes) -> Self {
        Self { contestant, cri, recipes }
    }

    /// Runs the life of one pod, and adds the time of each step to `table`.
    pub(crate) async fn round(&self, round: u32, table: &mut Table) -> Outcome {
        let (who, cri) = (self.contestant, self.cri);
        let pod = self.recipes.pod(&format!("{who}{round}"));
        let main = self.recipes.sleeper("main");
        // kubelet creates this directory, and cri-dockerd needs it.
        fs::create_dir_all(Path::new(&pod.log_directory).join("main"))?;
        let up = Instant::now();
        let sandbox = cri.run(&pod).await?;
        table.since(who, "RunPodSandbox", up);
        let step = Instant::now();
        let container = cri.create(&sandbox, &main, &pod).await?;
        table.since(who, "CreateContainer", step);
        let step = Instant::now();
        cri.start(&container).await?;
        table.since(who, "StartContainer", step);
        table.since(who, "pod up", up);

        let down = Instant::now();
        cri.stop_container(&container, 0).await?;
        table.since(who, "StopContainer", down);
        let step = Instant::now();
        cri.stop(&sandbox).await?;
        table.since(who, "StopPodSandbox", step);
        let step = Instant::now();
        cri.remove_container(&container).await?;
        table.since(who, "RemoveContainer", step);
        let step = Instant::now();
        cri.remove(&sandbox).await?;
        table.since(who, "RemovePodSandbox", step);
        table.since(who, "pod down", down);
        Ok(())
    }
}

/// A pod's life with direct engine calls and CNI plugin runs, without a CRI server.
#[derive(Debug)]
pub(crate) struct RawLife {
    /// The client with which the benchmark calls the engine directly.
    pub(crate) engine: RawEngine,
    plugins: Plugins,
    recording: Recording,
}

impl RawLife {
    /// Lives of pods that are created with the recorded requests of dockbridge.
    pub(crate) fn new(world: &World, recording: &Recording) -> Self {
        Self {
            engine: RawEngine::new(&world.docker, &recording.version),
            plugins: Plugins::load(world).expect("the world's CNI configuration"),
            recording: recording.clone(),
        }
    }

    /// Starts a pod with these containers.
    pub(crate) async fn up<const N: usize>(
        &self,
        pod: String,
        names: [&str; N],
    ) -> Outcome<RawPod> {
        let engine = &self.engine;
        let sandbox = engine.create(&pod, &self.recording.sandbox_of(&pod)).await?;
        engine.start(&sandbox).await?;
        let netns = format!("/proc/{}/ns/net", engine.pid(&sandbox).await?);
        let result = self.plugins.add(&sandbox, &netns).await?;
        let body = self.recording.container_of(&pod, &sandbox);
        let mut containers = Vec::new();
        for name in names {
            let container = engine.create(&format!("{pod}-{name}"), &body).await?;
            engine.start(&container).await?;
            containers.push(container);
        }
        Ok(RawPod { sandbox, netns, result, containers })
    }

    /// Stops and removes the pod and its containers.
    pub(crate) async fn down(&self, pod: &RawPod) -> Outcome {
        for container in &pod.containers {
            self.engine.stop(container, 0).await?;
        }
        self.plugins.del(&pod.sandbox, &pod.netns, &pod.result).await?;
        self.engine.stop(&pod.sandbox, 10).await?;
        for id in pod.containers.iter().chain([&pod.sandbox]) {
            self.engine.remove(id).await?;
        }
        Ok(())
    }

    /// Runs the life of one pod, and adds the time of each step to `table`.
    pub(crate) async fn round(&mut self, round: u32, table: &mut Table) -> Outcome {
        let engine = &self.engine;
        let pod = format!("raw-pod-{round}");
        let body = self.recording.sandbox_of(&pod);
        let up = Instant::now();
        let sandbox = engine.create(&pod, &body).await?;
        engine.start(&sandbox).await?;
        let netns = format!("/proc/{}/ns/net", engine.pid(&sandbox).await?);
        let plugins = Instant::now();
        let result = self.plugins.add(&sandbox, &netns).await?;
        table.since(RAW, "(of it CNI ADD)", plugins);
        table.since(RAW, "RunPodSandbox", up);
        let step = Instant::now();
        let body = self.recording.container_of(&pod, &sandbox);
        let container = engine.create(&format!("raw-main-{round}"), &body).await?;
        table.since(RAW, "CreateContainer", step);
        let step = Instant::now();
        engine.start(&container).await?;
        table.since(RAW, "StartContainer", step);
        table.since(RAW, "pod up", up);

        let down = Instant::now();
        engine.stop(&container, 0).await?;
        table.since(RAW, "StopContainer", down);
        let step = Instant::now();
        self.plugins.del(&sandbox, &netns, &result).await?;
        table.since(RAW, "(of it CNI DEL)", step);
        engine.stop(&sandbox, 10).await?;
        table.since(RAW, "StopPodSandbox", step);
        let step = Instant::now();
        engine.remove(&container).await?;
        table.since(RAW, "RemoveContainer", step);
        let step = Instant::now();
        engine.remove(&sandbox).await?;
        table.since(RAW, "RemovePodSandbox", step);
        table.since(RAW, "pod down", down);
        Ok(())
    }
}

/// A running pod that was made without a CRI server.
#[derive(Debug)]
pub(crate) struct RawPod {
    sandbox: String,
    netns: String,
    result: serde_json::Value,
    containers: Vec<String>,
}

/// The name of the measurements without a CRI server.
pub(crate) const RAW: &str = "raw";
