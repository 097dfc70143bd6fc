//! Accesses the engine without dockbridge, through the docker command and the world's control script.

use std::process::Output;

use nix::unistd::Pid;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
};

use super::{
    failure::{Outcome, ensure, fail},
    world::World,
};

#[derive(Clone, Debug)]
pub(crate) struct Engine {
    world: World,
}

impl Engine {
    pub(crate) const fn of(world: World) -> Self {
        Self { world }
    }

    /// Runs the docker command with these arguments, and returns its output, or an error if it fails.
    pub(crate) async fn docker(&self, arguments: &[&str]) -> Outcome<String> {
        let output = self.try_docker(arguments).await?;
        if !output.status.success() {
            fail!("docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs the docker command with these arguments, and returns its output and exit code, also if it fails.
    pub(crate) async fn try_docker(&self, arguments: &[&str]) -> Outcome<Output> {
        let host = format!("unix://{}", self.world.docker.display());
        Ok(Command::new("docker").env("DOCKER_HOST", host).args(arguments).output().await?)
    }

    /// Runs a shell line inside a container with `docker exec`.
    pub(crate) async fn inside(&self, container: &str, line: &str) -> Outcome<String> {
        self.docker(&["exec", container, "sh", "-c", line]).await
    }

    /// Creates the file for which the container waits. The container may then end before `docker exec` has the
    /// exit code of its command, so this function ignores the exit code of `docker exec`.
    #[allow(dead_code, reason = "tests ask for it, measurements do not")]
    pub(crate) async fn let_go(&self, container: &str, file: &str) -> Outcome {
        self.try_docker(&["exec", container, "touch", file]).await.map(drop)
    }

    /// The ids of all containers, running or not.
    pub(crate) async fn containers(&self) -> Outcome<Vec<String>> {
        let ids = self.docker(&["ps", "-aq", "--no-trunc"]).await?;
        Ok(ids.lines().map(str::to_owned).collect())
    }

    /// Makes dockerd run Go's garbage collector, which closes unused connections. Without this request,
    /// dockerd may run its garbage collector only every two minutes.
    pub(crate) async fn collect_garbage(&self) -> Outcome {
        let mut stream = UnixStream::connect(&self.world.docker).await?;
        stream.write_all(b"GET /debug/pprof/heap?gc=1 HTTP/1.0\r\nHost: docker\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        ensure!(answer.starts_with(b"HTTP/1.0 200"), "the engine did not collect its garbage");
        Ok(())
    }

    /// The process id of dockerd.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn pid(&self) -> Outcome<i32> {
        Ok(std::fs::read_to_string(self.world.root.join("pids/dockerd"))?.trim().parse()?)
    }

    /// The process id of the containerd that dockerd uses.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn containerd(&self) -> Outcome<Pid> {
        let file = self.world.root.join("docker/exec/containerd/containerd.pid");
        Ok(Pid::from_raw(std::fs::read_to_string(file)?.trim().parse()?))
    }

    /// Runs the control script with a command, for example `start` or `kill`, and flags for dockerd.
    pub(crate) async fn control(&self, arguments: &[&str]) -> Outcome {
        // dockerd keeps its inherited output open, so the output must be a file and not a pipe.
        let log = std::fs::File::create(self.world.root.join("log/control.log"))?;
        let status = Command::new(&self.world.control)
            .args(arguments)
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .await?;
        if !status.success() {
            let text = std::fs::read_to_string(self.world.root.join("log/control.log"))?;
            fail!("engine {arguments:?}: {text}");
        }
        Ok(())
    }
}
