//! The story of power cuts: runs on each start of a node (`tests/env/power.sh`). Checks that dockbridge shows the pods
//! and containers from before the last cut, except those that were being removed, and can remove them. With `live`,
//! then creates and removes pods until the next cut.
//!
//! This story is not in the list of stories, because it runs in its own virtual machine.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dockbridge::wire::cri;
use nix::libc;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use crate::support::{
    bridge::{Bridge, Folders},
    engine::Engine,
    failure::{Failure, Outcome, ensure, fail},
    leftovers,
    patience::Looks,
    pod::{self, Recipes},
    random::seeded,
    stage::Stage,
    world::World,
};

pub(crate) async fn between_cuts(world: World, live: bool) -> Outcome {
    let began = Instant::now();
    let before = Before::read()?;
    let mut stage = set(&world).await?;
    let took = began.elapsed().as_secs_f32();
    let (sandboxes, containers) = (before.sandboxes.len(), before.containers.len());
    println!(
        "power: dockbridge answers after {took:.1} s; {sandboxes} pods, {containers} containers are to be known"
    );
    all_are_known(&stage, &before).await?;
    all_can_go(&stage).await?;
    let aside = quarantined(&stage.folders.state)?;
    let torn = torn_leases(&world.cni_leases)?;
    let left = leftovers::search(&world, &stage.engine, &stage.folders).await?;
    ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
    println!(
        "power: checked: {} files moved to quarantine, {torn} leases damaged by their plugin, nothing else left",
        aside.len()
    );
    if live {
        println!("power: pods come and go");
        return come_and_go(&stage).await;
    }
    stage.bridge.stop().await?;
    println!("power: at rest");
    Ok(())
}

async fn set(world: &World) -> Outcome<Stage> {
    let kept = |name: &str| Path::new("/kept").join(name);
    let folders = Folders {
        state: kept("state"),
        run: PathBuf::from("/run/dockbridge"),
        logs: kept("logs"),
        shared: kept("shared"),
    };
    fs::create_dir_all(&folders.run)?;
    let bridge = Bridge::start(world, &folders, "cni", &world.docker, &[]).await?;
    Ok(Stage {
        world: world.clone(),
        engine: Engine::of(world.clone()),
        recipes: Recipes::new(world, &folders, "power"),
        cri: bridge.cri().await?,
        folders,
        bridge,
    })
}

/// The pods and containers that were created before the cut, according to the CRI's answers, without those that
/// the story was about to remove.
#[derive(Debug, Default)]
struct Before {
    sandboxes: Vec<String>,
    containers: Vec<String>,
}

impl Before {
    fn read() -> Outcome<Self> {
        let path = std::env::var_os("DOCKBRIDGE_POWER_BEFORE").unwrap_or_default();
        let mut before = Self::default();
        for line in fs::read_to_string(path)?.lines() {
            match line.split_once(' ') {
                Some(("pod", id)) => before.sandboxes.push(id.to_owned()),
                Some(("container", id)) => before.containers.push(id.to_owned()),
                Some(("going", id)) => {
                    before.sandboxes.retain(|known| known != id);
                    before.containers.retain(|known| known != id);
                }
                _ => fail!("a note nobody wrote: {line:?}"),
            }
        }
        Ok(before)
    }
}

async fn all_are_known(stage: &Stage, before: &Before) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(200));
    let sandboxes = loop {
        match stage.cri.sandboxes().await {
            Ok(listed) => break listed,
            Err(refused) if !looks.again().await => fail!("no list: {refused}"),
            Err(_early) => {}
        }
    };
    let containers = stage.cri.containers().await?;
    let engine = stage.engine.containers().await?;
    let mut lost = Vec::new();
    for (kind, ids, known) in [
        ("pod", &before.sandboxes, sandboxes.iter().map(|one| &one.id).collect::<Vec<_>>()),
        ("container", &before.containers, containers.iter().map(|one| &one.id).collect()),
    ] {
        for id in ids.iter().filter(|id| !known.contains(id)) {
            let words = if engine.contains(id) { "docker has it" } else { "docker lost it" };
            lost.push(format!("{kind} {id}: {words}"));
        }
    }
    ensure!(lost.is_empty(), "not known any more:\n  {}", lost.join("\n  "));
    let ready = cri::PodSandboxState::SandboxReady;
    ensure!(!sandboxes.iter().any(|one| one.state() == ready), "ready after a cut: {sandboxes:?}");
    let running = cri::ContainerState::ContainerRunning;
    ensure!(
        !containers.iter().any(|one| one.state() == running),
        "runs after a cut: {containers:?}"
    );
    println!(
        "power: {} pods and {} containers are listed, docker has {}",
        sandboxes.len(),
        containers.len(),
        engine.len()
    );
    Ok(())
}

/// Removes all pods and containers, also a container whose create was in progress at the power cut.
async fn all_can_go(stage: &Stage) -> Outcome {
    let mut left = Vec::new();
    let mut looks = Looks::every(Duration::from_millis(200));
    while looks.again().await {
        stage.cri.clear().await?;
        for container in stage.cri.containers().await? {
            stage.cri.remove_container(&container.id).await?;
        }
        left = stage.engine.containers().await?;
        if left.is_empty() {
            fs::remove_dir_all(&stage.folders.logs)?;
            fs::create_dir_all(&stage.folders.logs)?;
            return Ok(());
        }
    }
    fail!("the engine still has {left:?}");
}

/// The files that dockbridge moved to quarantine. The story reports and removes them, so that each counts once.
fn quarantined(state: &Path) -> Outcome<Vec<String>> {
    let all = leftovers::files_below(state);
    let aside: Vec<String> = all.into_iter().filter(|path| path.contains("quarantine")).collect();
    for path in &aside {
        println!("power: put aside: {path}, {} bytes", fs::metadata(path)?.len());
        fs::remove_file(path)?;
    }
    Ok(aside)
}

/// The CNI plugin host-local does not flush its files. After a power cut, an address may be reserved by a file without
/// the owner's name, which no DEL can find. The story counts and removes these files, as an operator would do.
fn torn_leases(folder: &Path) -> Outcome<usize> {
    let mut torn = 0;
    for path in leftovers::files_below(folder) {
        let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        if is_address && fs::read(&path)?.iter().all(|byte| *byte == 0) {
            fs::remove_file(&path)?;
            torn += 1;
        }
    }
    Ok(torn)
}

/// Records creations and intended removals on a disk without a file system, so that a power cut cannot damage
/// written records.
#[derive(Debug)]
struct Notes {
    disk: File,
    count: AtomicU64,
}

impl Notes {
    fn open() -> Outcome<Self> {
        let path = std::env::var_os("DOCKBRIDGE_POWER_NOTES").unwrap_or_default();
        let disk = OpenOptions::new().write(true).custom_flags(libc::O_SYNC).open(path)?;
        Ok(Self { disk, count: AtomicU64::new(0) })
    }

    fn note(&self, kind: &str, id: &str) -> io::Result<()> {
        let mut page = [0; PAGE];
        for (to, from) in page.iter_mut().zip(format!("{kind} {id}\n").bytes()) {
            *to = from;
        }
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        self.disk.write_all_at(&page, number * PAGE as u64)
    }
}

/// Runs lifecycles of pods until the cut. Some pods stay until the cut.
async fn come_and_go(stage: &Stage) -> Outcome {
    let mut random = seeded();
    let (notes, staying) = (Arc::new(Notes::open()?), Arc::new(AtomicUsize::new(0)));
    let run: u32 = random.random();
    let mut lives = JoinSet::new();
    for number in 0..LIVES {
        let (cri, recipes) = (stage.cri.clone(), stage.recipes.clone());
        let (notes, staying) = (Arc::clone(&notes), Arc::clone(&staying));
        let mut life = Life { cri, recipes, notes, staying, random: StdRng::from_rng(&mut random) };
        lives.spawn(async move {
            for round in 0_u32.. {
                if let Err(Failure(why)) =
                    life.live(&format!("p{run:x}-{number}-{round}"), number).await
                {
                    println!("power: refused: {why}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        });
    }
    while lives.join_next().await.is_some() {}
    fail!("all lives ended");
}

struct Life {
    cri: crate::support::cri::Cri,
    recipes: Recipes,
    notes: Arc<Notes>,
    staying: Arc<AtomicUsize>,
    random: StdRng,
}

impl Life {
    /// Creates a pod with one or two containers. Then removes the pod, unless the pod stays until the cut.
    async fn live(&mut self, name: &str, number: u16) -> Outcome {
        let mut pod = self.recipes.pod(name);
        let stays = self.staying.load(Ordering::SeqCst) < STAYING && self.random.random_bool(0.3);
        if !stays {
            pod.port_mappings = vec![pod::port(18200 + number, 80)];
        }
        let sandbox = self.cri.run(&pod).await?;
        self.notes.note("pod", &sandbox)?;
        let mut containers = Vec::new();
        for number in 0..self.random.random_range(1..3) {
            let main = self.recipes.sleeper(&format!("c{number}"));
            let id = self.cri.create(&sandbox, &main, &pod).await?;
            self.notes.note("container", &id)?;
            if self.random.random_bool(0.8) {
                self.cri.start(&id).await?;
                containers.push(id);
            }
        }
        if let Some(id) = containers.first()
            && self.random.random_bool(0.5)
        {
            self.cri.exec_sync(id, &["true"], 60).await?;
        }
        if stays {
            self.staying.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        if let Some(id) = containers.first()
            && self.random.random_bool(0.5)
        {
            self.cri.stop_container(id, 2).await?;
            self.notes.note("going", id)?;
            self.cri.remove_container(id).await?;
        }
        self.cri.stop(&sandbox).await?;
        for one in self.cri.containers().await?.iter().filter(|one| one.pod_sandbox_id == sandbox) {
            self.notes.note("going", &one.id)?;
        }
        self.notes.note("going", &sandbox)?;
        Ok(self.cri.remove(&sandbox).await?)
    }
}

const PAGE: usize = 4096;
/// The number of concurrent lifecycles.
const LIVES: u16 = 3;
/// Once this many pods stay until the power cut, no pod that is created later stays.
const STAYING: usize = 6;
