//! The soak test: for an hour, pods are created and removed while streams of several kinds are open. The test
//! samples dockbridge's memory, descriptors, threads, inotify watches and tasks all the time, draws them as
//! curves, and fails if one of them grows or if something is left at the end.
//!
//! The soak test runs in a world: `make soak`. `SOAK=2m` is for a short try. `LIVES` pods per minute are
//! created and removed while `STAYING` pods stay. `BRIDGE` names the program of another build to test.

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

mod churn;
mod curve;
#[path = "../kubelet.rs"]
mod kubelet;
mod picture;
#[path = "../run.rs"]
mod run;
mod sampler;
mod streams;
mod verdict;

#[path = "../../stories/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the stories use all of it, a measurement some"
)]
mod support;

use std::{
    env, fs,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use churn::Churn;
use curve::Curve;
use dockbridge::wire::cri::ContainerEventType;
use kubelet::Kubelet;
use rand::Rng;
use run::{amount, in_world};
use sampler::Sampler;
use streams::Heard;
use support::{
    failure::{Failure, Outcome, ensure, ensure_eq},
    patience::Looks,
    process::Process,
    stage::Stage,
    world::World,
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use verdict::Verdict;

fn main() -> ExitCode {
    in_world("soak", soak)
}

async fn soak(world: &World) -> Outcome {
    let length = length()?;
    let lives = amount("LIVES", 20_u32).max(1);
    println!("engine {}, {length:?} at {lives} pods a minute", world.engine);
    let stage = Stage::usual(world, "soak").await?;
    let process = Process(stage.bridge.pid().unwrap_or_default());
    let mut ears = JoinSet::new();
    let heard = streams::listen(&stage.cri, &mut ears).await?;
    let failed = Arc::new(AtomicUsize::new(0));
    let before = Churn::on(&stage, &failed).life(0).await.and_then(|()| process.descriptors())?;
    let mut open = JoinSet::new();
    streams::open(&stage, &mut open).await?;
    stay(&stage).await?;
    let kubelet = Kubelet::of(&stage.cri).with_features();
    let folder = PathBuf::from("target/soak");
    fs::create_dir_all(&folder)?;
    let mut sampler = Sampler::new(&stage, &folder.join(format!("{}.tsv", world.engine)))?;
    let lived = tokio::select! {
        lived = churn(&stage, &failed, length, Duration::from_secs(60) / lives) => lived?,
        Some(ended) = open.join_next() => return Err(early("a stream", ended)),
        Some(ended) = ears.join_next() => return Err(early("a listener", ended)),
        outcome = watch(&mut sampler, length) => return outcome,
    };
    kubelet.is_content()?;
    println!("{lived} pods lived, kubelet asked {} times", kubelet.asked());
    drop((kubelet, open));
    let curves = sampler.curves();
    draw(&world.engine, length, &curves)?;
    stage.cri.clear().await?;
    agree(&heard, lived, failed.load(Ordering::Relaxed) as u64).await?;
    println!(
        "descriptors: {before} after the first pod, {} at rest",
        at_rest(process, before).await?
    );
    drop(ears);
    stage.leaves_nothing().await?;
    let growing: Vec<&str> =
        curves.iter().filter(|curve| curve.grows()).map(|curve| curve.name).collect();
    ensure!(growing.is_empty(), "growing: {}", growing.join(", "));
    let missing = sampler.missing();
    ensure!(missing.is_empty(), "not measured: {}", missing.join(", "));
    // A short run may have too few samples to judge the curves.
    let judged = curves.iter().all(|curve| curve.judgement.verdict != Verdict::Unknown);
    ensure!(judged || length < JUDGED, "too few samples");
    Ok(())
}

/// A run of at least this length has enough samples to judge every curve.
const JUDGED: Duration = Duration::from_secs(600);

/// The duration in `SOAK`, for example `60m`, `90s` or `2h`.
fn length() -> Outcome<Duration> {
    let text = env::var("SOAK").unwrap_or_default();
    let text = if text.is_empty() { "60m" } else { &text };
    let (number, unit) = text.split_at(text.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(Failure(format!("SOAK is {text:?}, expected 90s, 60m or 2h"))),
    };
    Ok(Duration::from_secs(number.parse::<u64>()? * unit))
}

fn early(what: &str, ended: Result<Outcome, tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(Ok(())) => Failure(format!("{what} ended early")),
        Ok(Err(failure)) => Failure(format!("{what}: {failure}")),
        Err(panic) => Failure(format!("{what}: {panic}")),
    }
}

/// Starts the pods that run during the whole test.
async fn stay(stage: &Stage) -> Outcome {
    for number in 0..amount("STAYING", 5) {
        let pod = stage.recipes.pod(&format!("stays{number}"));
        let sandbox = stage.cri.run(&pod).await?;
        stage.up(&sandbox, &pod, &["one", "two"].map(|name| stage.recipes.sleeper(name))).await?;
    }
    Ok(())
}

/// Creates and removes pods in two tasks, so that two pods can exist at once, and returns the number of pods.
async fn churn(
    stage: &Stage,
    failed: &Arc<AtomicUsize>,
    length: Duration,
    pace: Duration,
) -> Outcome<usize> {
    const LANES: u32 = 2;
    let end = Instant::now() + length;
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let churn = Churn::on(stage, failed);
        lanes.spawn(async move {
            sleep(pace * lane).await;
            let mut lived = 0;
            let mut beats = interval(pace * LANES);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while Instant::now() < end {
                beats.tick().await;
                let number = 1 + lane as usize + lived * LANES as usize;
                let told = |failure| Failure(format!("pod {number}: {failure}"));
                churn.life(number).await.map_err(told)?;
                lived += 1;
            }
            Ok::<_, Failure>(lived)
        });
    }
    let mut lived = 0;
    while let Some(lane) = lanes.join_next().await {
        lived += lane??;
    }
    Ok(lived)
}

/// Takes samples at random moments until the future is dropped, and sometimes prints the progress. At a fixed interval,
/// all samples could show the same phase of a pod's life, and another phase when the machine is slower.
async fn watch(sampler: &mut Sampler, length: Duration) -> Outcome {
    let begun = Instant::now();
    let mut told = begun;
    let beat = (length / 600).max(Duration::from_secs(1));
    loop {
        sampler.look().await?;
        sleep(beat.mul_f64(rand::rng().random_range(0.5..1.5))).await;
        if told.elapsed() > length / 12 {
            told = Instant::now();
            println!("{:5.1} min: {}", begun.elapsed().as_secs_f64() / 60.0, sampler.last());
        }
    }
}

fn draw(engine: &str, length: Duration, curves: &[Curve]) -> Outcome {
    for curve in curves {
        let (low, high) = curve.frame();
        println!("\n{}: {}", curve.name, curve.says());
        let lines = picture::dots(curve, 90, 4);
        for (place, line) in lines.iter().enumerate() {
            let label = match place {
                0 => format!("{high:.1}"),
                place if place + 1 == lines.len() => format!("{low:.1}"),
                _ => String::new(),
            };
            println!("{label:>8} {line}");
        }
    }
    let path = PathBuf::from(format!("target/soak/{engine}.svg"));
    fs::write(&path, picture::svg(&format!("dockbridge on {engine}, {length:?}"), curves))?;
    println!("\n{}", path.display());
    Ok(())
}

/// Checks the numbers of events that each client received (`heard`): one of each kind for every container and pause
/// container, also in the pods that stayed and in the first pod, but no start event for a failed start.
async fn agree(heard: &[Heard], lived: usize, failed: u64) -> Outcome {
    let staying = amount("STAYING", 5_usize);
    let all = ((1 + lived) * 4 + 3 + staying * 3) as u64;
    let kinds = [
        ContainerEventType::ContainerCreatedEvent,
        ContainerEventType::ContainerStartedEvent,
        ContainerEventType::ContainerStoppedEvent,
        ContainerEventType::ContainerDeletedEvent,
    ];
    for heard in heard {
        let complete = || heard.counts().values().sum::<u64>() >= all * 4 + failed * 3;
        let mut looks = Looks::within(Duration::from_secs(10), Duration::from_millis(50));
        while looks.again().await && !complete() {}
        for kind in kinds {
            let told = heard.counts().get(&kind).copied().unwrap_or_default();
            let begun = kind == ContainerEventType::ContainerStartedEvent;
            let expected = if begun { all } else { all + failed };
            ensure_eq!(told, expected, "({kind:?} told to a listener)");
        }
    }
    println!(
        "each listener heard of {all} lives: created, started, stopped and deleted, once each"
    );
    Ok(())
}

/// The number of dockbridge's open descriptors after the pods and their streams have ended.
async fn at_rest(process: Process, before: usize) -> Outcome<usize> {
    // dockbridge keeps idle connections to the engine open for some time.
    let _ = timeout(Duration::from_secs(60), process.lets_go(before)).await;
    process.descriptors()
}
