//! Measures how soon a client of dockbridge's CRI events, and a client of the engine's own events, get the event about
//! the end of a container's process.

use std::time::{Duration, Instant};

use dockbridge::wire::cri::{self, ContainerEventType};
use http_body_util::BodyExt;
use jiff::Timestamp;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{sleep, timeout};

use crate::{
    amount,
    lives::RAW,
    raw::RawEngine,
    support::{
        cri::Cri,
        failure::{Failure, Outcome, ensure},
        process::Process,
        stage::Stage,
    },
    table::Table,
};

/// Starts and ends one container after the other in the same pod.
pub(crate) async fn measure(stage: &Stage, raw: &RawEngine) -> Outcome {
    let pod = stage.recipes.pod("exits");
    let sandbox = stage.cri.run(&pod).await?;
    let mut table = Table::default();
    // The first round only warms caches and is not counted.
    for round in 0..=amount("EXITS", 30) {
        let main = stage.recipes.sleeper(&format!("ends{round}"));
        let id = stage.cri.create(&sandbox, &main, &pod).await?;
        stage.cri.start(&id).await?;
        let mut times = Table::default();
        end(&stage.cri, raw, &id, &mut times).await?;
        if round > 0 {
            table.merge(times);
        }
    }
    table.print("the end of a process");
    table.wants(BY_SIGNAL, 20.0);
    println!();
    stage.cri.end(&sandbox).await
}

/// Ends a container as workloads usually end: its process handles SIGTERM and exits. The measured times end with an
/// event about the exit. `BY_SIGNAL` begins when this function sends the signal, `BEHIND` at the engine's event, and
/// `BY_STAMP` when the process ended, according to the engine.
async fn end(cri: &Cri, raw: &RawEngine, id: &str, times: &mut Table) -> Outcome {
    let request = cri::GetEventsRequest {};
    let mut told = cri.runtime.clone().get_container_events(request).await?.into_inner();
    let mut engines = raw.events(r#"{"event":["die"]}"#).await?;
    let pid = u32::try_from(raw.pid(id).await?)?;
    while !Process(pid).catches(Signal::SIGTERM)? {
        sleep(Duration::from_millis(5)).await;
    }
    let heard_by_raw = async {
        while let Some(frame) = engines.frame().await {
            let text = frame?.into_data().unwrap_or_default();
            if String::from_utf8_lossy(&text).contains(id) {
                return Ok((Instant::now(), Timestamp::now()));
            }
        }
        Err(Failure("the engine's events ended".to_owned()))
    };
    let heard = async {
        while let Some(event) = told.message().await? {
            let stopped = event.container_event_type() == ContainerEventType::ContainerStoppedEvent;
            if stopped && event.container_id == id {
                return Ok((Instant::now(), Timestamp::now()));
            }
        }
        Err(Failure("the events ended".to_owned()))
    };
    let told_to = Instant::now();
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    let both = async { tokio::try_join!(heard, heard_by_raw) };
    let (ours, theirs) = timeout(TIMEOUT, both).await.map_err(|_late| {
        Failure(format!("nobody tells of the end of {id} within {TIMEOUT:?}"))
    })??;
    times.note("dockbridge", BY_SIGNAL, ours.0 - told_to);
    times.note(RAW, BY_SIGNAL, theirs.0 - told_to);
    times.note("dockbridge", BEHIND, ours.0.saturating_duration_since(theirs.0));
    let status = cri.container(id).await?;
    let ended = Timestamp::from_nanosecond(status.finished_at.into())?;
    ensure!(ended <= ours.1, "told at {} of an end at {ended}", ours.1);
    times.note("dockbridge", BY_STAMP, ours.1.duration_since(ended).unsigned_abs());
    times.note(RAW, BY_STAMP, theirs.1.duration_since(ended).unsigned_abs());
    Ok(())
}

const BY_SIGNAL: &str = "SIGTERM sent → stopped event";
const BEHIND: &str = "engine's event → stopped event";
const BY_STAMP: &str = "engine's stamp → stopped event";
const TIMEOUT: Duration = Duration::from_secs(20);
