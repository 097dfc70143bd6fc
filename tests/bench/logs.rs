//! Measures the cost of container logs: how many bytes of the engine's log dockbridge converts to CRI lines
//! in a second, and dockbridge's processor time as a share of the engine's time for the same lines. The first
//! row of a round is limited by the engine's speed, the second row by dockbridge's.
//!
//! The benchmark runs in a world: `tests/env/world.sh -- cargo bench --bench logs`. `LINES` and `ROUNDS`
//! change the amounts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement fails by panicking and reports by printing"
)]

mod run;

#[path = "../stories/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the stories use all of it, a measurement some"
)]
mod support;

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use dockbridge::wire::cri::{ContainerState, PodSandboxConfig};
use run::{amount, in_world};
use support::{
    cri_log::CriLog,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::Looks,
    stage::Stage,
    world::World,
};
use tokio::time::sleep;

fn main() -> ExitCode {
    in_world("logs", measure)
}

async fn measure(world: &World) -> Outcome {
    let mut stage = Stage::docker(world, "bench_logs").await?;
    let pod = stage.recipes.pod("logs");
    let sandbox = stage.cri.run(&pod).await?;
    println!("engine {}; MB and MB/s of the engine's log, cpu in seconds\n", world.engine);
    println!("{:<30}{:>8}{:>8}{:>8}{:>8}{:>8}", "", "MB", "MB/s", "cpu", "engine", "ratio");
    for round in 0..amount("ROUNDS", 3) {
        let mut run = Run { stage: &mut stage, pod: &pod, sandbox: &sandbox, round };
        run.beside_the_writer().await?;
        run.afterwards().await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// One round of the benchmark.
struct Run<'a> {
    stage: &'a mut Stage,
    pod: &'a PodSandboxConfig,
    sandbox: &'a str,
    round: u64,
}

impl Run<'_> {
    /// Measures dockbridge while a container writes as fast as the engine accepts the lines. The measurement
    /// ends when dockbridge reports the container's exit, and fails if the CRI log is then incomplete.
    async fn beside_the_writer(&self) -> Outcome {
        let lines = amount("LINES", 3_000_000);
        let (before, begun) = (self.used()?, Instant::now());
        let (id, log) = self.start("live", &writing(lines)).await?;
        let mut looks = Looks::within(Duration::from_secs(600), Duration::from_millis(10));
        while self.stage.cri.container(&id).await?.state() != ContainerState::ContainerExited {
            ensure!(looks.again().await, "it never ends");
        }
        let (took, used) = (begun.elapsed(), self.used()?);
        let bytes = engines_bytes(&log, lines)?;
        row(
            "pump beside writer and engine",
            bytes,
            took,
            [used[0] - before[0], used[1] - before[1]],
        );
        self.end(&id, &log).await
    }

    /// Starts dockbridge after the container has written everything. Measures the time from the first bytes
    /// that dockbridge writes to the last. dockbridge's processor time includes its start.
    async fn afterwards(&mut self) -> Outcome {
        // These lines fit into the engine's five log files, so the engine deletes none before dockbridge reads them.
        let lines = amount("LINES", 3_000_000).min(400_000);
        let before = self.used()?[1];
        let line = format!("until [ -e /go ]; do usleep 10000; done; {}", writing(lines));
        let line = format!("{line}; touch /done; exec sleep 1000");
        let (id, log) = self.start("late", &line).await?;
        self.stage.bridge.kill().await?;
        let until_done = "touch /go; until [ -e /done ]; do usleep 10000; done";
        self.stage.engine.inside(&id, until_done).await?;
        // This pause gives the engine time to write the container's last lines to its log file.
        sleep(Duration::from_secs(1)).await;
        let engine = self.used_by_engine()? - before;
        let path = log.path().to_owned();
        let growing = tokio::task::spawn_blocking(move || watch(&path));
        self.stage.bridge.spawn().await?;
        self.stage.cri = self.stage.bridge.cri().await?;
        let (first, took) = growing.await??;
        let (bytes, written) = (engines_bytes(&log, lines)?, log.length()?);
        let rest = bytes as f64 * (1.0 - first as f64 / written as f64);
        row("pump alone", rest as u64, took, [self.used()?[0], engine]);
        self.end(&id, &log).await
    }

    async fn start(&self, name: &str, line: &str) -> Outcome<(String, CriLog)> {
        let container = self.stage.recipes.container(&format!("{name}{}", self.round), line);
        let id = self.stage.cri.create(self.sandbox, &container, self.pod).await?;
        self.stage.cri.start(&id).await?;
        Ok((id, CriLog::of(self.pod, &container)))
    }

    async fn end(&self, id: &str, log: &CriLog) -> Outcome {
        self.stage.cri.stop_container(id, 0).await?;
        self.stage.cri.remove_container(id).await?;
        Ok(fs::remove_file(log.path())?)
    }

    /// The processor times of dockbridge and the engine so far, in seconds.
    fn used(&self) -> Outcome<[f64; 2]> {
        let Some(bridge) = self.stage.bridge.pid() else { fail!("no dockbridge") };
        Ok([seconds(bridge)?, self.used_by_engine()?])
    }

    fn used_by_engine(&self) -> Outcome<f64> {
        let pid = fs::read_to_string(self.stage.world.root.join("pids/dockerd"))?;
        seconds(pid.trim().parse()?)
    }
}

/// The processor time of a process with all its threads, in seconds.
fn seconds(pid: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The process name in parentheses may contain any characters, so the words are counted from the last parenthesis.
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = words[11].parse::<u32>()? + words[12].parse::<u32>()?;
    Ok(f64::from(ticks) / TICKS)
}

/// Watches a file until it has not changed for a second. Returns the file's first size above zero, and the
/// time from then to the last change.
fn watch(path: &Path) -> Outcome<(u64, Duration)> {
    let begun = Instant::now();
    let (mut first, mut seen) = (None, (0, begun));
    while first.is_none() || seen.1.elapsed() < Duration::from_secs(1) {
        ensure!(begun.elapsed() < Duration::from_secs(120), "nothing is written");
        let length = fs::metadata(path)?.len();
        if length != seen.0 {
            seen = (length, Instant::now());
            first.get_or_insert(seen);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let (length, at) = first.unwrap_or(seen);
    Ok((length, seen.1.duration_since(at)))
}

/// The number of bytes that the engine wrote for `lines` lines. Fails if the CRI log has another number of lines.
fn engines_bytes(log: &CriLog, lines: u64) -> Outcome<u64> {
    let mut found = 0;
    log.each(|_| {
        found += 1;
        Ok(())
    })?;
    ensure_eq!(found, lines, "(lines)");
    let engines = "{\"log\":\"\\n\",\"stream\":\"stdout\",\"time\":\"\"}\n".len();
    let ours = " stdout F \n".len();
    Ok(log.length()? + lines * u64::try_from(engines - ours)?)
}

fn writing(lines: u64) -> String {
    format!("yes '{TEXT}' | head -n {lines}")
}

fn row(name: &str, bytes: u64, took: Duration, [pump, engine]: [f64; 2]) {
    let megabytes = bytes as f64 / 1e6;
    let rate = megabytes / took.as_secs_f64();
    let ratio = pump / engine;
    println!("{name:<30}{megabytes:>8.0}{rate:>8.0}{pump:>8.2}{engine:>8.2}{ratio:>8.2}");
}

/// A log line of a usual length.
const TEXT: &str =
    "2026-01-01T00:00:00Z info request served method=GET path=/api/v1/items/4711 code=200 ms=12";
/// The kernel reports processor time in hundredths of a second.
const TICKS: f64 = 100.0;
