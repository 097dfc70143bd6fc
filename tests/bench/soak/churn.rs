//! Creates pods, uses them (commands, port forwarding, statistics, lists and logs) and removes them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dockbridge::wire::cri;
use tonic::Code;

use crate::support::{
    cri::{Cri, Refused},
    cri_log::CriLog,
    engine::Engine,
    failure::{Outcome, ensure, ensure_eq},
    forwarding::{Forward, ROUTES},
    remote::{ALL, Session, Way, Wish},
    stage::Stage,
};

/// Creates, uses and removes pods.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    cri: Cri,
    engine: Engine,
    recipes: crate::support::pod::Recipes,
    failed: Arc<AtomicUsize>,
}

impl Churn {
    /// A `Churn` whose pods run on `stage`. `failed` counts starts that failed in the engine.
    pub(crate) fn on(stage: &Stage, failed: &Arc<AtomicUsize>) -> Self {
        Self {
            cri: stage.cri.clone(),
            engine: stage.engine.clone(),
            recipes: stage.recipes.clone(),
            failed: Arc::clone(failed),
        }
    }

    /// Runs the life of the pod with this number. Some pods differ from the others, depending on the number.
    pub(crate) async fn life(&self, number: usize) -> Outcome {
        let pod = self.recipes.pod(&format!("life{number}"));
        let sandbox = self.up(&pod).await?;
        let web = self.recipes.web("web", PORT);
        let talker = self.recipes.container("talker", "seq 200; sleep 1000");
        // In one of ten pods, the command of this container needs more memory than its limit.
        let line = if number % 10 == 8 { HOG } else { "exit 3" };
        let short = self.recipes.container("short", line);
        let mut ids = Vec::new();
        for container in [&web, &talker, &short] {
            ids.push(self.begin(&sandbox, container.clone(), &pod).await?);
        }
        self.commands(&ids[0], number).await?;
        self.port(&sandbox, number).await?;
        self.figures(&sandbox, &ids[0]).await?;
        self.portions().await?;
        if number.is_multiple_of(5) {
            let mut log = CriLog::of(&pod, &talker);
            log.rotate(&self.cri, &ids[1]).await??;
        }
        self.end(&sandbox, &ids, number).await?;
        Ok(std::fs::remove_dir_all(&pod.log_directory)?)
    }

    /// Starts the sandbox of a pod. On a busy machine, runc sometimes fails to start a container. If the start fails in
    /// the engine, creates another sandbox, as kubelet does.
    async fn up(&self, pod: &cri::PodSandboxConfig) -> Outcome<String> {
        loop {
            match self.cri.run(pod).await {
                Ok(sandbox) => return Ok(sandbox),
                Err(refused) => self.forgive(&refused)?,
            }
        }
    }

    /// Creates and starts a container in a pod. If the start fails in the engine, removes the container and creates
    /// another one.
    async fn begin(
        &self,
        sandbox: &str,
        mut container: cri::ContainerConfig,
        pod: &cri::PodSandboxConfig,
    ) -> Outcome<String> {
        loop {
            let id = self.cri.create(sandbox, &container, pod).await?;
            let Err(refused) = self.cri.start(&id).await else { return Ok(id) };
            self.forgive(&refused)?;
            self.cri.remove_container(&id).await?;
            container.metadata.get_or_insert_default().attempt += 1;
        }
    }

    fn forgive(&self, refused: &Refused) -> Outcome {
        let failed = 1 + self.failed.fetch_add(1, Ordering::Relaxed);
        ensure!(refused.code == Code::Unknown && failed <= MOST_FAILED, "{refused}");
        println!("the engine failed: {refused}");
        Ok(())
    }

    /// Runs one command with ExecSync, one over a stream, and in some pods one that reaches its timeout or
    /// one whose client disconnects.
    async fn commands(&self, id: &str, number: usize) -> Outcome {
        // This command waits until the server whose port the test forwards later answers.
        let line =
            format!("until wget -qO /dev/null 127.0.0.1:{PORT}; do usleep 20000; done; echo open");
        let answer = self.cri.exec_sync(id, &["sh", "-c", &line], 20).await?;
        ensure_eq!(String::from_utf8_lossy(&answer.stdout), "open\n");
        let way = ALL[number % ALL.len()];
        let mut session = Session::shell(&self.cri, way, id, "echo hello", Wish::Output).await?;
        ensure_eq!(session.collect().await?.stdout, "hello\n", "{way:?}");
        if number % 10 == 3 {
            let late = self.cri.exec_sync(id, &["sleep", "1000"], 1).await;
            ensure!(late.is_err(), "a command without an end ended");
        }
        if number % 10 == 6 {
            // This client disconnects in the middle of the command.
            let way = [Way::Spdy("v4.channel.k8s.io"), Way::WebSocket("v5.channel.k8s.io")]
                [number / 10 % 2];
            let session = Session::exec(&self.cri, way, id, &["cat"], Wish::Pipes).await?;
            session.send("half a wo").await?;
        }
        Ok(())
    }

    async fn port(&self, sandbox: &str, number: usize) -> Outcome {
        let route = ROUTES[number % ROUTES.len()];
        let mut forward = Forward::to(&self.cri, route, sandbox, &[PORT]).await?;
        let mut line = forward.connect(PORT).await?;
        line.writer.send(b"GET / HTTP/1.0\r\n\r\n").await?;
        let answer = line.reader.until("\n").await?;
        ensure!(answer.starts_with("HTTP/1."), "{route:?}: {answer:?}");
        Ok(())
    }

    async fn figures(&self, sandbox: &str, id: &str) -> Outcome {
        let stats = self.cri.stats(id).await?;
        ensure!(stats.cpu.is_some() && stats.memory.is_some(), "no figures: {stats:?}");
        self.cri.pod_stats(sandbox).await?;
        let status = self.cri.container(id).await?;
        ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
        ensure!(
            !self.cri.sandbox(sandbox).await?.network.unwrap_or_default().ip.is_empty(),
            "no ip"
        );
        Ok(())
    }

    /// Reads every list through its streaming call, as kubelet does with the feature gate `CRIListStreaming`.
    async fn portions(&self) -> Outcome {
        let cri = &self.cri;
        cri.streamed_sandboxes(None).await?;
        cri.streamed_containers(None).await?;
        cri.streamed_stats(None).await?;
        cri.streamed_pod_stats(None).await?;
        cri.streamed_metrics().await?;
        cri.streamed_images(None).await?;
        Ok(())
    }

    /// Ends the pod in one of three ways: removes each container first, as kubelet does, kills a container
    /// first, or removes only the sandbox.
    async fn end(&self, sandbox: &str, ids: &[String], number: usize) -> Outcome {
        match number % 3 {
            0 => {
                for id in ids {
                    self.cri.stop_container(id, 0).await?;
                    self.cri.remove_container(id).await?;
                }
            }
            1 => drop(self.engine.docker(&["kill", &ids[0]]).await?),
            _ => {}
        }
        self.cri.stop(sandbox).await?;
        Ok(self.cri.remove(sandbox).await?)
    }
}

/// The test fails if more than this many starts fail in the engine.
const MOST_FAILED: usize = 5;

/// The port of the HTTP server in the pod.
pub(crate) const PORT: u16 = 8080;

/// A command that uses twice its container's memory limit.
const HOG: &str = "exec dd if=/dev/zero of=/dev/null bs=128M count=1";
