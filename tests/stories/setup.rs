//! Tests that `dockbridge setup` adds the runtime `dockbridge` to the engine, and that `--undo` removes it while pods
//! run. Also tests an upgrade and a removal of the runtime's program.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::{oci_runtime::directory::EditsDirectory, wire::cri};
use tokio::process::Command;
use tonic::Code;

use crate::{
    restarts::until_ready,
    security::said,
    skips::{Lack, skip},
    support::{
        bridge::program,
        cri::Cri,
        engine::Engine,
        failure::{Outcome, ensure, ensure_eq, fail},
        patience::Looks,
        stage::Stage,
        world::World,
    },
    user_namespaces::{mapped, mapped_pod},
};

/// Containers started with the runtime keep running, accept exec and stop normally after `--undo`, even after a restart
/// of the engine with live-restore. New pods with a user namespace are refused, and new pods without one start.
pub(crate) async fn undone_under_a_pod(world: World) -> Outcome {
    let Some((stage, setup)) = set(&world, "undone").await? else { return Ok(()) };
    let outcome = undone(&stage, &setup).await;
    finish(stage, &setup, outcome).await
}

async fn undone(stage: &Stage, setup: &Setup) -> Outcome {
    let (cri, engine) = (&stage.cri, &stage.engine);
    let (_, ids) = mapped_pod_of_two(stage).await?;

    setup.succeeds(&["--undo"], "Docker does not have the runtime").await?;
    until_users(cri, false).await?;
    let refused = cri.run(&mapped_pod(stage, "new")).await;
    said(refused, (Code::Unimplemented, "dockbridge setup"))?;
    for restarted in [false, true] {
        let told = cri.exec_sync(&ids[1], &["id", "-u"], 0).await?;
        ensure_eq!(String::from_utf8_lossy(&told.stdout).trim(), "0", "restarted: {restarted}");
        cri.stop_container(&ids[usize::from(restarted)], 10).await?;
        let ended = cri.container(&ids[usize::from(restarted)]).await?;
        ensure_eq!(ended.exit_code, 0, "it was killed; restarted: {restarted}");
        if !restarted {
            engine.control(&["restart", LIVE_RESTORE]).await?;
            until_ready(cri).await?;
        }
    }
    cri.run(&stage.recipes.pod("plain")).await?;
    cri.clear().await
}

/// After an upgrade of `dockbridge-runtime`, running containers still stop normally. While its program is missing, the
/// engine kills the runtime's containers instead of stopping them and leaves their shims, and dockbridge removes its
/// own files. Once the program is back, a restart of the engine removes the shims.
pub(crate) async fn without_its_program(world: World) -> Outcome {
    let Some((stage, setup)) = set(&world, "no_program").await? else { return Ok(()) };
    let outcome = program_missing(&stage, &setup).await;
    finish(stage, &setup, outcome).await
}

async fn program_missing(stage: &Stage, setup: &Setup) -> Outcome {
    let cri = &stage.cri;
    let (sandbox, ids) = mapped_pod_of_two(stage).await?;

    let (new, away) = (setup.folder.join("new"), setup.folder.join("away"));
    fs::copy(&setup.program, &new)?;
    fs::rename(&new, &setup.program)?;
    cri.stop_container(&ids[0], 10).await?;
    ensure_eq!(cri.container(&ids[0]).await?.exit_code, 0, "it was killed after an upgrade");

    fs::rename(&setup.program, &away)?;
    let outcome = program_away(stage, (&sandbox, &ids[1])).await;
    fs::rename(&away, &setup.program)?;
    outcome?;
    stage.engine.control(&["restart"]).await?;
    until_ready(cri).await
}

async fn program_away(stage: &Stage, (sandbox, id): (&str, &str)) -> Outcome {
    let cri = &stage.cri;
    let Err(refused) = cri.exec_sync(id, &["true"], 10).await else { fail!("a command ran") };
    ensure!(refused.message.contains("dockbridge-runtime"), "{refused:?}");
    let Err(refused) = cri.run(&mapped_pod(stage, "new")).await else { fail!("a pod started") };
    ensure!(refused.message.contains("dockbridge-runtime"), "{refused:?}");
    // StopContainer can fail, because Docker 26.1 may fail to inspect the process that it has just killed.
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && cri.stop_container(id, 1).await.is_err() {}
    ensure_eq!(cri.container(id).await?.exit_code, 137);
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await && cri.stop(sandbox).await.is_err() {}
    cri.end(sandbox).await?;
    // Sometimes the CNI plugin bridge cannot undo a failed ADD, because iptables does not find the pod's
    // chain. Later, kubelet removes a pod whose ADD was not undone.
    if refused.message.contains("cleanup failed") {
        println!("  the network of the refused pod could not be undone: {refused}");
        cri.clear().await?;
    }
    ensure_eq!(EditsDirectory::default().ids()?, Vec::<String>::new());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(!mounts.contains("/run/dockbridge-runtime"), "{mounts}");
    ensure_eq!(stage.engine.containers().await?, Vec::<String>::new());
    Ok(())
}

/// `dockbridge setup` does not change a `daemon.json` that cannot be parsed, or that has a runtime `dockbridge` that
/// `dockbridge setup` did not write. If dockerd refuses the file, the error names `dockerd --validate`.
pub(crate) async fn of_wrong_files(world: World) -> Outcome {
    let setup = Setup::of(&world)?;
    let outcome = wrong_files(&setup).await;
    setup.put_back()?;
    outcome
}

async fn wrong_files(setup: &Setup) -> Outcome {
    for (text, why) in [
        ("{\"runtimes\": ", "not a JSON object"),
        ("{\"runtimes\": {\"dockbridge\": {\"path\": \"/usr/bin/runc\"}}}", "did not write"),
    ] {
        fs::write(&setup.file, text)?;
        for flags in [&[][..], &["--undo"], &["--dry-run"]] {
            let (succeeds, told) = setup.run(flags).await?;
            ensure!(!succeeds && told.contains(why), "{flags:?}: {told}");
            ensure_eq!(fs::read_to_string(&setup.file)?, text);
        }
    }
    fs::write(&setup.file, "{\"no-such-setting\": 1}")?;
    let (succeeds, told) = setup.run(&[]).await?;
    ensure!(!succeeds && told.contains("dockerd --validate"), "{told}");
    Ok(())
}

async fn mapped_pod_of_two(stage: &Stage) -> Outcome<(String, Vec<String>)> {
    let pod = mapped_pod(stage, "pod");
    let sandbox = stage.cri.run(&pod).await?;
    let containers = ["first", "second"].map(|name| mapped(stage.recipes.sleeper(name)));
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    Ok((sandbox, ids))
}

/// Starts a dockbridge and runs `dockbridge setup`, or returns `None` if Docker is older than 24.
async fn set(world: &World, story: &str) -> Outcome<Option<(Stage, Setup)>> {
    if world.docker_major < 24 {
        skip(Lack::YoungEngine);
        return Ok(None);
    }
    let setup = Setup::of(world)?;
    Engine::of(world.clone()).control(&["restart", LIVE_RESTORE]).await?;
    let stage = Stage::cni(world, story).await?;
    let outcome = async {
        setup.succeeds(&["--dry-run"], "nothing was changed").await?;
        ensure_eq!(fs::read_to_string(&setup.file)?, setup.before);
        setup.succeeds(&[], "Docker has the runtime").await?;
        setup.succeeds(&[], "has the runtime").await?;
        until_users(&stage.cri, true).await
    };
    match outcome.await {
        Ok(()) => Ok(Some((stage, setup))),
        failed => finish(stage, &setup, failed).await.map(|()| None),
    }
}

async fn finish(stage: Stage, setup: &Setup, outcome: Outcome) -> Outcome {
    setup.put_back()?;
    stage.engine.control(&["restart"]).await?;
    outcome?;
    stage.leaves_nothing().await
}

/// The program `dockbridge` with `dockbridge-runtime` in the same directory, as in packages, and the engine's
/// `daemon.json`.
pub(crate) struct Setup {
    world: World,
    folder: PathBuf,
    program: PathBuf,
    file: PathBuf,
    before: String,
}

impl Setup {
    pub(crate) fn of(world: &World) -> Outcome<Self> {
        let folder = world.root.join("tmp/installed");
        fs::create_dir_all(&folder)?;
        let own = folder.join("dockbridge");
        fs::copy(program(), &own)?;
        let runtime = folder.join("dockbridge-runtime");
        if !runtime.is_symlink() {
            symlink("dockbridge", &runtime)?;
        }
        let file = world.root.join("docker/daemon.json");
        let before = fs::read_to_string(&file)?;
        Ok(Self { world: world.clone(), folder, program: own, file, before })
    }

    async fn run(&self, flags: &[&str]) -> Outcome<(bool, String)> {
        let docker = format!("unix://{}", self.world.docker.display());
        let mut command = Command::new(&self.program);
        let output = command.args(["setup", "--docker", &docker]).args(flags).output().await?;
        let told = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
    }

    pub(crate) async fn succeeds(&self, flags: &[&str], said: &str) -> Outcome {
        let (succeeds, told) = self.run(flags).await?;
        ensure!(succeeds && told.contains(said), "setup {flags:?}: {told}");
        Ok(())
    }

    pub(crate) fn put_back(&self) -> Outcome {
        fs::write(&self.file, &self.before)?;
        Ok(fs::remove_dir_all(Path::new(&self.folder))?)
    }
}

async fn until_users(cri: &Cri, wanted: bool) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(50));
    while looks.again().await {
        let handlers: Vec<cri::RuntimeHandler> = cri.status(false).await?.runtime_handlers;
        let has = |one: &cri::RuntimeHandler| one.features.is_some_and(|it| it.user_namespaces);
        if handlers.iter().any(has) == wanted {
            return Ok(());
        }
    }
    fail!("the node's status does not say that user namespaces are there: {wanted}")
}

const LIVE_RESTORE: &str = "--live-restore";
