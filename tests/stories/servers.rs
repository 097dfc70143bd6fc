//! Tests that only one dockbridge serves an engine: a second dockbridge exits with an error that names the
//! first, whatever the two share. A killed dockbridge leaves no lock.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use dockbridge::wire::cri::PodSandboxState;
use tokio::{
    process::{Child, Command},
    time::timeout,
};
use tonic::Code;

use crate::support::{
    bridge::{Bridge, Folders, program},
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq},
    patience::{Looks, patient},
    stage::Stage,
    world::World,
};

/// A second dockbridge on the engine is refused, whether it shares nothing with the first, or a directory or the CRI
/// socket, and also if it uses another path to the engine.
pub(crate) async fn refused_whatever_they_share(world: World) -> Outcome {
    let stage = Stage::docker(&world, "first_server").await?;
    let sandbox = stage.cri.run(&stage.recipes.pod("steady")).await?;
    let (state, run) = (&stage.folders.state, &stage.folders.run);
    let state = ("--state-dir", state.display().to_string());
    let run = ("--run-dir", run.display().to_string());
    let socket = ("--listen", stage.bridge.socket().display().to_string());
    let way = world.root.join("tmp/another-way.sock");
    symlink(&world.docker, &way)?;
    let way = ("--docker", way.display().to_string());
    let all = [state.clone(), run.clone(), socket.clone()];
    for shared in [&[][..], &[state], &[run], &[socket], &[way], &all] {
        let other = Other::below(&world, "second_server")?;
        let began = Instant::now();
        let told = other.refused(shared).await?;
        let first = format!(
            "process {} serving {}",
            stage.bridge.pid().unwrap_or_default(),
            stage.bridge.socket().display()
        );
        ensure!(told.contains(&first), "sharing {shared:?} it was told: {told}");
        println!("  sharing {shared:?}, after {:.1} s: {told}", began.elapsed().as_secs_f32());
        ensure_eq!(stage.cri.sandbox(&sandbox).await?.state(), PodSandboxState::SandboxReady);
        other.clear()?;
    }
    fs::remove_file(world.root.join("tmp/another-way.sock"))?;
    stage.cri.version().await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// After a SIGKILL of the first dockbridge, a second one with other directories and another socket serves the pods
/// of the first.
pub(crate) async fn killed_and_followed_at_once(world: World) -> Outcome {
    let mut stage = Stage::docker(&world, "killed_server").await?;
    let sandbox = stage.cri.run(&stage.recipes.pod("steady")).await?;
    let other = Other::below(&world, "next_server")?;
    other.refused(&[]).await?;
    stage.bridge.kill().await?;
    let began = Instant::now();
    let mut next = Bridge::start(&world, &other.folders, "docker", &world.docker, &[]).await?;
    let took = began.elapsed();
    println!("  the next one answered after {:.1} s", took.as_secs_f32());
    let cri = next.cri().await?;
    ensure_eq!(cri.sandbox(&sandbox).await?.state(), PodSandboxState::SandboxReady);
    cri.clear().await?;
    next.stop().await?;
    other.clear()?;
    stage.bridge.spawn().await?;
    stage.leaves_nothing().await
}

/// While the engine is down, a second dockbridge starts and waits for the engine. When the engine starts, the
/// second dockbridge exits, and the first serves pods again.
pub(crate) async fn refused_when_the_engine_comes(world: World) -> Outcome {
    let stage = Stage::docker(&world, "patient_server").await?;
    stage.engine.control(&["stop"]).await?;
    let other = Other::below(&world, "late_server")?;
    let mut late = other.spawn(&[])?;
    let cri = answering(&other.socket()).await?;
    let refused = cri.sandboxes().await.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::Unavailable));
    ensure!(late.try_wait()?.is_none(), "it did not wait for the engine");
    stage.engine.control(&["start"]).await?;
    let told = complaint(late).await?;
    println!("  {told}");
    ensure!(told.contains(&stage.bridge.socket().display().to_string()), "it was told: {told}");
    ensure!(!other.socket().exists(), "its socket is still there");
    let mut looks = Looks::every(Duration::from_millis(100));
    while stage.cri.run(&stage.recipes.pod("steady")).await.is_err() {
        ensure!(looks.again().await, "the first one does not go on");
    }
    stage.cri.clear().await?;
    other.clear()?;
    stage.leaves_nothing().await
}

/// `dockbridge check` reports which dockbridge serves the engine, and runs its test pod through that dockbridge.
pub(crate) async fn found_by_the_check(world: World) -> Outcome {
    let stage = Stage::docker(&world, "checked_server").await?;
    let me = format!(
        "process {} serving {}",
        stage.bridge.pid().unwrap_or_default(),
        stage.bridge.socket().display()
    );
    let configured = check(stage.bridge.command(), &[]).await?;
    ensure!(
        configured.contains(&format!("OK    server        dockbridge serves this engine: {me}")),
        "{configured}"
    );
    let other = Other::below(&world, "unknown_server")?;
    let flags = other.flags(&[]);
    let found = check(&flags, &[]).await?;
    let finding = found.lines().skip_while(|line| !line.starts_with("FAIL  server"));
    let finding: Vec<&str> = finding.take(2).collect();
    ensure!(finding.join("\n").contains(&me) && finding.len() == 2, "{found}");
    println!("  {}", finding.join("\n  "));
    let ran = check(&flags, &["--pod"]).await?;
    ensure!(ran.contains(&format!("through {}:", stage.bridge.socket().display())), "{ran}");
    ensure!(ran.contains("Starting the pod took "), "{ran}");
    other.clear()?;
    stage.leaves_nothing().await
}

/// A second dockbridge for the world's engine, with its own directories and socket.
struct Other {
    world: World,
    root: PathBuf,
    folders: Folders,
}

impl Other {
    fn below(world: &World, name: &str) -> Outcome<Self> {
        let root = world.root.join("tmp").join(name);
        Ok(Self { world: world.clone(), folders: Folders::below(&root)?, root })
    }

    fn socket(&self) -> PathBuf {
        self.folders.run.join("cri.sock")
    }

    /// The flags of the second dockbridge. Flags in `shared` replace the second dockbridge's own flags.
    fn flags(&self, shared: &[(&str, String)]) -> Vec<String> {
        let own = [
            ("--listen", self.socket().display().to_string()),
            ("--docker", self.world.docker.display().to_string()),
            ("--state-dir", self.folders.state.display().to_string()),
            ("--run-dir", self.folders.run.display().to_string()),
            ("--network", "docker".to_owned()),
        ];
        let own = own.into_iter().filter(|(flag, _)| shared.iter().all(|(other, _)| other != flag));
        let all = own.chain(shared.iter().cloned());
        all.flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    fn spawn(&self, shared: &[(&str, String)]) -> Outcome<Child> {
        let mut command = dockbridge("serve", &self.flags(shared));
        Ok(command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?)
    }

    /// Starts the second dockbridge, which must fail, and returns its last line of output.
    async fn refused(&self, shared: &[(&str, String)]) -> Outcome<String> {
        complaint(self.spawn(shared)?).await
    }

    fn clear(&self) -> Outcome {
        Ok(fs::remove_dir_all(&self.root)?)
    }
}

/// Waits until a dockbridge has failed, and returns its last line of output.
async fn complaint(server: Child) -> Outcome<String> {
    let ended = timeout(patient(Duration::from_secs(20)), server.wait_with_output()).await??;
    let text = words(&ended);
    ensure!(!ended.status.success(), "it ended well: {text}");
    Ok(text.lines().last().unwrap_or_default().to_owned())
}

async fn answering(socket: &Path) -> Outcome<Cri> {
    let mut looks = Looks::every(Duration::from_millis(50));
    while looks.again().await && !socket.exists() {}
    Cri::connect(socket).await
}

/// The output of `dockbridge check`, whatever its result.
async fn check(flags: &[String], more: &[&str]) -> Outcome<String> {
    let ended = dockbridge("check", flags).args(more).output().await?;
    Ok(words(&ended))
}

fn words(ended: &Output) -> String {
    let bytes = [ended.stdout.as_slice(), ended.stderr.as_slice()].concat();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn dockbridge(verb: &str, flags: &[String]) -> Command {
    let mut command = Command::new(program());
    command.arg(verb).args(flags).stdin(Stdio::null());
    // The world's environment variables are removed, because they have the same prefix as dockbridge's settings.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOCKBRIDGE_")) {
        command.env_remove(name);
    }
    command
}
