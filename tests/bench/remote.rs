//! What a command in a container costs over SPDY through dockbridge, compared with the engine's own exec over a
//! hijacked connection.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

use crate::{
    amount,
    lives::RAW,
    raw::RawEngine,
    support::{
        failure::{Outcome, ensure_eq},
        remote::{SPDY, Session, Wish},
        stage::Stage,
    },
    table::Table,
};

/// Measures commands in one container, alternating between SPDY through dockbridge and the engine's exec.
pub(crate) async fn measure(stage: &Stage, raw: &RawEngine) -> Outcome<Table> {
    let pod = stage.recipes.pod("exec");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    let mut table = Table::default();
    // The first round only warms caches and is not counted.
    for round in 0..=amount("ROUNDS", 20) {
        let mut times = Table::default();
        bridged(stage, &ids[0], &mut times).await?;
        stage.bridge.freeze()?;
        let outcome = engines(raw, &ids[0], &mut times).await;
        stage.bridge.thaw()?;
        outcome?;
        sleep(Duration::from_millis(100)).await;
        if round > 0 {
            table.merge(times);
        }
    }
    stage.cri.end(&sandbox).await?;
    Ok(table)
}

async fn bridged(stage: &Stage, container: &str, times: &mut Table) -> Outcome {
    let begun = Instant::now();
    let mut session = Session::exec(&stage.cri, SPDY, container, &["cat"], Wish::Pipes).await?;
    session.send(LINE).await?;
    session.stdout.until(LINE).await?;
    times.since("dockbridge", THERE_AND_BACK, begun);
    session.finish().await?;
    ensure_eq!(session.collect().await?.code()?, 0);

    let begun = Instant::now();
    let mut session = Session::exec(&stage.cri, SPDY, container, &["true"], Wish::Pipes).await?;
    ensure_eq!(session.collect().await?.code()?, 0);
    times.since("dockbridge", START_TO_EXIT, begun);
    Ok(())
}

async fn engines(raw: &RawEngine, container: &str, times: &mut Table) -> Outcome {
    let begun = Instant::now();
    let exec = raw.create_exec(container, &["cat"]).await?;
    let mut stream = raw.start_exec(&exec).await?;
    stream.write_all(LINE.as_bytes()).await?;
    // The engine sends a header of eight bytes before each piece of output: the stream and the length.
    let mut answer = vec![0; 8 + LINE.len()];
    stream.read_exact(&mut answer).await?;
    times.since(RAW, THERE_AND_BACK, begun);
    ensure_eq!(&answer[8..], LINE.as_bytes());
    stream.shutdown().await?;
    stream.read_to_end(&mut answer).await?;
    ensure_eq!(raw.exec_code(&exec).await?, 0);

    let begun = Instant::now();
    let exec = raw.create_exec(container, &["true"]).await?;
    let mut stream = raw.start_exec(&exec).await?;
    stream.read_to_end(&mut answer).await?;
    ensure_eq!(raw.exec_code(&exec).await?, 0);
    times.since(RAW, START_TO_EXIT, begun);
    Ok(())
}

const LINE: &str = "a line to be sent there and back\n";
const THERE_AND_BACK: &str = "exec cat, a line there and back";
const START_TO_EXIT: &str = "exec true, start to exit";
