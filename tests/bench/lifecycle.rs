//! Measures the cost of dockbridge: compares each step of a pod's life through the CRI, and commands in a container,
//! with the engine calls and CNI plugin runs that they need without dockbridge. Measurements with and without
//! dockbridge alternate in one run, so that the load of the machine affects both in the same way. The important figures
//! are the ratios of the times with dockbridge to the times without.
//!
//! The benchmark runs in a world: `tests/env/world.sh -- cargo bench --bench lifecycle`. `PEER=unix:///…`
//! adds another CRI endpoint to the comparison (not a second dockbridge, because an engine allows only one).
//! `ROUNDS`, `PODS` and `READS` change the number of repetitions, pods and reads, `BURST` how many pods are
//! created at once, and `BURSTS` how often. To measure only one part, set `ONLY=crowd` (reads and processor
//! time with many pods), `ONLY=pods` (lives, bursts, our OCI runtime) or `ONLY=nri` (what NRI costs).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement fails by panicking and reports by printing"
)]

mod burst;
mod commands;
mod crowd;
mod daemons;
mod exits;
mod kubelet;
mod lives;
mod nri;
#[path = "../it/support/nri_plugin.rs"]
#[allow(dead_code, reason = "a measurement uses some of it")]
mod nri_plugin;
mod oci_runtime;
mod plugins;
mod raw;
mod recording;
mod remote;
mod run;
mod table;
mod wanted;

#[path = "../stories/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the stories use all of it, a measurement some"
)]
mod support;

use std::{env, fs, process::ExitCode, time::Duration};

use lives::{CriLife, RAW, RawLife};
use raw::RawEngine;
use run::{amount, in_world};
use support::{
    bridge::program,
    cri::Cri,
    failure::{Failure, Outcome},
    proxy::Proxy,
    stage::Stage,
    world::World,
};
use table::Table;
use tokio::time::sleep;

fn main() -> ExitCode {
    in_world("lifecycle", measure)
}

async fn measure(world: &World) -> Outcome {
    let rounds = amount("ROUNDS", 20);
    println!("engine {}, {rounds} rounds, times in ms\n", world.engine);
    match env::var("ONLY").as_deref() {
        Ok("crowd") => return crowd(world).await,
        Ok("nri") => return nri::measure(world).await,
        _ => {}
    }
    let proxy = Proxy::start(&world.root.join("tmp/recorded.sock"), &world.docker)?;
    let mut recorder = Stage::behind(world, "recorder", proxy.socket()).await?;
    let recording = recording::record(&mut recorder, &proxy).await?;
    let mut stage = Stage::usual(world, "bench").await?;
    let peer = peer().await?;

    let mut table = Table::default();
    let mut raw = RawLife::new(world, &recording);
    // The first round only warms caches and connections, so it is not counted.
    for round in 0..=rounds {
        let mut times = Table::default();
        CriLife::new("dockbridge", &stage.cri, &stage.recipes).round(round, &mut times).await?;
        // dockbridge is frozen while the engine is called directly, because dockbridge would slow these calls
        // when it reacts to the engine's events.
        stage.bridge.freeze()?;
        // This pause gives the engine time to finish the work for the previous pod.
        sleep(REST).await;
        let outcome = raw.round(round, &mut times).await;
        stage.bridge.thaw()?;
        outcome?;
        // Before dockbridge is measured again, this pause lets it process the engine's events since the freeze.
        sleep(REST).await;
        if let Some(peer) = &peer {
            CriLife::new("peer", peer, &stage.recipes).round(round, &mut times).await?;
        }
        if round > 0 {
            table.merge(times);
        }
    }
    table.print("one pod, one container, on CNI");
    table.wants_ratio("RunPodSandbox", RAW, 1.1);
    // With `dockbridge-runtime`, a pod starts faster: CNI plugins run while the pause container starts, and
    // runc compiles no seccomp profile for the pause container.
    let pod_up = if world.has_oci_runtime { 0.85 } else { 1.1 };
    table.wants_ratio("pod up", RAW, pod_up);

    burst::measure(&stage, &raw).await?;
    oci_runtime::measure(world, &raw.engine).await?;
    let only_pods = env::var("ONLY").is_ok_and(|part| part == "pods");
    if !only_pods {
        commands::measure(&stage, &raw.engine).await?.print("commands in a container");
        exits::measure(&stage, &raw.engine).await?;
        crowd::measure(&stage, &raw.engine, peer.as_ref()).await?;
        remote::measure(&stage, &raw.engine).await?.print("commands in a container");
    }
    stage.cri.clear().await?;
    stage.bridge.stop().await?;
    // The measured dockbridge adopted and removed the recorded pod, but the pod's files belong to the
    // dockbridge that recorded it. So the recording dockbridge starts again to clear these files, after the
    // measured one has ended, because an engine has one dockbridge at a time.
    recorder.bridge.spawn().await?;
    recorder.bridge.cri().await?.clear().await?;
    recorder.leaves_nothing().await?;
    let binary = fs::metadata(program())?.len();
    wanted::at_most("program, MB", megabytes(binary), 12.0);
    stage.leaves_nothing().await?;
    if only_pods { Ok(()) } else { nri::measure(world).await }
}

async fn crowd(world: &World) -> Outcome {
    let stage = Stage::usual(world, "bench").await?;
    // Without a version, each engine uses its newest API. Docker 20.10 and 29 have no API version in common.
    let engine = RawEngine::new(&world.docker, "");
    crowd::measure(&stage, &engine, peer().await?.as_ref()).await?;
    stage.leaves_nothing().await
}

async fn peer() -> Outcome<Option<Cri>> {
    let Ok(endpoint) = env::var("PEER") else { return Ok(None) };
    let Some(path) = endpoint.strip_prefix("unix://").filter(|path| !path.is_empty()) else {
        return if endpoint.is_empty() {
            Ok(None)
        } else {
            Err(Failure(format!("PEER is {endpoint:?}, expected unix:///path")))
        };
    };
    Cri::connect(path.as_ref()).await.map(Some)
}

/// A number of bytes in millions.
fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0
}

const REST: Duration = Duration::from_millis(200);
