//! What the bridge costs: each step of a pod's life through the CRI, and commands in it, against the very engine
//! calls and plugin runs it consists of, taken in turns in one run, so that the machine's mood
//! falls on both alike. The figures to keep are the ratios.
//!
//! Runs in a world: `tests/env/world.sh -- cargo bench --bench lifecycle`. `PEER=unix:///…` adds
//! another CRI endpoint to the comparison (no dockbridge: an engine has one), `ROUNDS`, `PODS` and
//! `READS` change the amounts, `BURST` and `BURSTS` those of pods made at once. Measures only one part with
//! `ONLY=crowd` (reads and processor time beside many pods), `ONLY=pods` (lives, bursts, our OCI runtime) or `ONLY=nri` (what
//! NRI costs).

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
    // The first round warms page caches, plugin binaries and connections; it is not counted.
    for round in 0..=rounds {
        let mut times = Table::default();
        CriLife::new("dockbridge", &stage.cri, &stage.recipes).round(round, &mut times).await?;
        // Not even listening to the engine's events may cost the raw calls anything.
        stage.bridge.freeze()?;
        // Each begins on an engine that has come to rest.
        sleep(REST).await;
        let outcome = raw.round(round, &mut times).await;
        stage.bridge.thaw()?;
        outcome?;
        // Nor may what it missed be caught up with on its own time.
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
    // With our OCI runtime CNI plugins work while the pause starts, which has no seccomp profile of Docker's.
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
    // The recorded pod's files are its own, though the other adopted and removed the pod. An engine has
    // one server at a time.
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
    let engine = RawEngine::new(&world.docker, OLDEST);
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

/// Bytes as millions of bytes.
fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0
}

/// Between two lives.
const REST: Duration = Duration::from_millis(200);
/// What every engine we know speaks.
const OLDEST: &str = "/v1.41";
