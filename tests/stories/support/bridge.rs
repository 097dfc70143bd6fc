//! Runs dockbridge as a child process with its own directories. A story can kill dockbridge and start it again.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use super::{
    cri::Cri,
    failure::{Outcome, fail},
    patience::{Looks, patient},
    world::World,
};

/// The directories of a dockbridge process and of its story.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// The directory for `--state-dir`.
    pub(crate) state: PathBuf,
    /// The directory for `--run-dir`.
    pub(crate) run: PathBuf,
    /// The directory with the logs of the story's pods.
    pub(crate) logs: PathBuf,
    /// The directory with files that a story shares with its containers.
    pub(crate) shared: PathBuf,
}

impl Folders {
    /// Creates the folders below `root`.
    pub(crate) fn below(root: &Path) -> Outcome<Self> {
        let folder = |name: &str| -> Outcome<PathBuf> {
            let path = root.join(name);
            fs::create_dir_all(&path)?;
            Ok(path)
        };
        Ok(Self {
            state: folder("state")?,
            run: folder("run")?,
            logs: folder("logs")?,
            shared: folder("shared")?,
        })
    }
}

/// A dockbridge process, which a story can stop and start again.
#[derive(Debug)]
pub(crate) struct Bridge {
    command: Vec<String>,
    log: PathBuf,
    socket: PathBuf,
    child: Option<Child>,
    /// A directory in which dockbridge searches for programs before all others.
    programs: Option<PathBuf>,
}

impl Bridge {
    /// Starts dockbridge with the engine socket `docker` and `flags`, which replace the usual flags of the same name.
    /// Waits like [`Self::spawn`].
    pub(crate) async fn start(
        world: &World,
        folders: &Folders,
        network: &str,
        docker: &Path,
        flags: &[&str],
    ) -> Outcome<Self> {
        let socket = folders.run.join("cri.sock");
        let command = [
            ("--listen", format!("unix://{}", socket.display())),
            ("--docker", format!("unix://{}", docker.display())),
            ("--state-dir", folders.state.display().to_string()),
            ("--run-dir", folders.run.display().to_string()),
            ("--network", network.to_owned()),
            ("--cni-conf-dir", world.cni_conf.display().to_string()),
            ("--cni-bin-dir", world.cni_bin.display().to_string()),
            ("--cni-cache-dir", world.cni_cache.display().to_string()),
            ("--streaming-addr", "127.0.0.1:0".to_owned()),
            ("--log-level", "debug".to_owned()),
        ]
        .into_iter()
        .filter(|(flag, _)| !flags.contains(flag))
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .chain(flags.iter().map(|flag| (*flag).to_owned()))
        .collect();
        let name = folders.state.parent().and_then(Path::file_name).unwrap_or_default();
        let log = world.root.join("log").join(name).with_extension("dockbridge.log");
        let mut bridge = Self { command, log, socket, child: None, programs: None };
        bridge.spawn().await?;
        Ok(bridge)
    }

    /// Connects a client to this dockbridge. A restart of dockbridge breaks the client's connection, so the next call
    /// can fail.
    pub(crate) async fn cri(&self) -> Outcome<Cri> {
        Cri::connect(&self.socket).await
    }

    /// The path of dockbridge's CRI socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn command(&self) -> &[String] {
        &self.command
    }

    /// The process id of dockbridge while it runs.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Freezes dockbridge. Clients can still connect, but get no answer.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn freeze(&self) -> Outcome {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a frozen dockbridge continue.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn thaw(&self) -> Outcome {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Outcome {
        let Some(pid) = self.child.as_ref().and_then(Child::id) else { return Ok(()) };
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Stops dockbridge with SIGTERM, and checks that it ends and removes its socket.
    pub(crate) async fn stop(&mut self) -> Outcome {
        self.signal(Signal::SIGTERM)?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        match tokio::time::timeout(patient(PATIENCE), child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => {}
            Ok(status) => fail!("dockbridge ended with {status:?}\n{}", self.tail()),
            Err(_late) => {
                fail!("dockbridge did not end within {:?}\n{}", patient(PATIENCE), self.tail())
            }
        }
        if self.socket.exists() {
            fail!("the socket is still there after a graceful stop");
        }
        Ok(())
    }

    /// Kills dockbridge with SIGKILL.
    pub(crate) async fn kill(&mut self) -> Outcome {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Starts dockbridge, or restarts it with the same directories after [`Self::stop`] or [`Self::kill`]. Waits until
    /// dockbridge answers, then up to ten seconds (longer on slow machines) for the first list from the engine.
    /// A missing first list is not an error.
    pub(crate) async fn spawn(&mut self) -> Outcome {
        self.launch()?;
        self.await_answer().await?;
        let cri = self.cri().await?;
        let mut looks = Looks::within(FIRST_LIST, Duration::from_millis(50));
        while looks.again().await && cri.sandboxes().await.is_err() {}
        Ok(())
    }

    /// Starts dockbridge without waiting until it answers.
    pub(crate) fn launch(&mut self) -> Outcome {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(program());
        command.arg("serve").args(&self.command).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // dockbridge does not get the world's environment variables, because their names have the same prefix as those
        // of dockbridge's settings.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOCKBRIDGE_")) {
            command.env_remove(name);
        }
        if let Some(programs) = &self.programs {
            let others = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{others}", programs.display()));
        }
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Stops dockbridge gracefully and starts it again.
    pub(crate) async fn restart(&mut self) -> Outcome<Cri> {
        self.stop().await?;
        self.spawn().await?;
        self.cri().await
    }

    /// From its next start on, dockbridge searches for programs in this directory first.
    pub(crate) fn search_programs_in(&mut self, folder: &Path) {
        self.programs = Some(folder.to_owned());
    }

    /// Stops dockbridge gracefully and starts it again with further flags, which all later starts also have.
    pub(crate) async fn restart_with(&mut self, flags: &[&str]) -> Outcome<Cri> {
        self.command.extend(flags.iter().map(|&flag| flag.to_owned()));
        self.restart().await
    }

    /// Kills dockbridge and starts it again.
    pub(crate) async fn crash(&mut self) -> Outcome<Cri> {
        self.kill().await?;
        self.spawn().await?;
        self.cri().await
    }

    /// The file with dockbridge's log, from all its starts.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of dockbridge's log.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Waits until dockbridge answers, after [`Self::launch`].
    pub(crate) async fn await_answer(&mut self) -> Outcome {
        let deadline = Instant::now() + patient(PATIENCE);
        loop {
            if let Ok(cri) = Cri::connect(&self.socket).await
                && cri.version().await.is_ok()
            {
                return Ok(());
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                fail!("dockbridge ended while starting: {status}\n{}", self.tail());
            }
            if Instant::now() > deadline {
                fail!("dockbridge does not answer\n{}", self.tail());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

const FIRST_LIST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// The path of the program `dockbridge` that is tested. For benchmarks, the variable `BRIDGE` can hold another path.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("BRIDGE").unwrap_or(env!("CARGO_BIN_EXE_dockbridge").into()).into()
}
