//! The streams of the soak test (container events, commands, port forwarding, attach), and a log that is rotated.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dockbridge::wire::cri::{self, ContainerEventType};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::churn::PORT;
use crate::support::{
    cri::Cri,
    cri_log::CriLog,
    failure::{Failure, Outcome, ensure, ensure_eq},
    forwarding::{Forward, Route},
    remote::{SPDY, Session, WEBSOCKET, Way, Wish},
    stage::Stage,
};

/// How many events of each kind a client of container events has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<Mutex<BTreeMap<ContainerEventType, u64>>>);

impl Heard {
    fn note(&self, kind: ContainerEventType) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// The number of received events of each kind.
    pub(crate) fn counts(&self) -> BTreeMap<ContainerEventType, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts two clients of container events, which end with dockbridge, and a third one that reconnects every 20 seconds.
pub(crate) async fn listen(cri: &Cri, ears: &mut JoinSet<Outcome>) -> Outcome<[Heard; 2]> {
    let heard = [Heard::default(), Heard::default()];
    for heard in &heard {
        let (mut stream, heard) = (events(cri).await?, heard.clone());
        ears.spawn(async move {
            while let Some(event) = stream.message().await? {
                heard.note(event.container_event_type());
            }
            Ok(())
        });
    }
    let cri = cri.clone();
    ears.spawn(async move {
        loop {
            let mut stream = events(&cri).await?;
            let _ = timeout(Duration::from_secs(20), async {
                while let Ok(Some(_)) = stream.message().await {}
            })
            .await;
        }
    });
    Ok(heard)
}

async fn events(cri: &Cri) -> Outcome<tonic::Streaming<cri::ContainerEventResponse>> {
    Ok(cri.runtime.clone().get_container_events(cri::GetEventsRequest {}).await?.into_inner())
}

/// Opens the streams into a pod that exists during the whole run. Each stream runs until it fails or
/// `streams` is dropped.
pub(crate) async fn open(stage: &Stage, streams: &mut JoinSet<Outcome>) -> Outcome {
    let pod = stage.recipes.pod("streams");
    let sandbox = stage.cri.run(&pod).await?;
    let ticker = stage.recipes.container("ticker", TICKING);
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.web("web", PORT), ticker.clone()]).await?;
    for way in [SPDY, WEBSOCKET] {
        streams.spawn(echo(stage.cri.clone(), ids[0].clone(), way));
    }
    for route in [Route::Spdy, Route::Tunnel] {
        streams.spawn(forward(stage.cri.clone(), sandbox.clone(), route));
    }
    streams.spawn(attach(stage.cri.clone(), ids[1].clone()));
    streams.spawn(log(stage.cri.clone(), ids[1].clone(), CriLog::of(&pod, &ticker)));
    Ok(())
}

/// Runs `cat` over a stream, and sends it a line every two seconds.
async fn echo(cri: Cri, id: String, way: Way) -> Outcome {
    let mut session = Session::exec(&cri, way, &id, &["cat"], Wish::Pipes).await?;
    for number in 0_u64.. {
        let line = format!("line {number}\n");
        session.send(&line).await?;
        ensure_eq!(session.stdout.until("\n").await?, line, "{way:?}");
        sleep(BREATH).await;
    }
    Ok(())
}

/// Opens one forwarded connection after the other through one port-forward session.
async fn forward(cri: Cri, sandbox: String, route: Route) -> Outcome {
    let mut forward = Forward::to(&cri, route, &sandbox, &[PORT]).await?;
    // The server in the pod might not be ready yet.
    sleep(BREATH).await;
    loop {
        let mut line = forward.connect(PORT).await?;
        line.writer.send(b"GET / HTTP/1.0\r\n\r\n").await?;
        let answer = line.reader.text().await?;
        ensure!(answer.starts_with("HTTP/1."), "{route:?}: {answer:?}");
        line.writer.finish().await?;
        sleep(BREATH).await;
    }
}

/// Attaches to the container that runs `TICKING`, and reads its output.
async fn attach(cri: Cri, id: String) -> Outcome {
    let mut session = Session::attach(&cri, SPDY, &id, Wish::Output).await?;
    loop {
        session.stdout.until("\n").await?;
    }
}

/// Every 20 seconds, rotates the log of the container that runs `TICKING`. Each rotated file must begin with the line
/// after the last line of the previous file.
async fn log(cri: Cri, id: String, mut log: CriLog) -> Outcome {
    let mut next = 1;
    loop {
        sleep(Duration::from_secs(20)).await;
        log.rotate(&cri, &id).await??;
        let current = log.path().to_owned();
        for path in log.files()?.into_iter().filter(|path| *path != current) {
            let text = fs::read_to_string(&path)?;
            for line in text.lines() {
                let told = line.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
                let told = told.ok_or_else(|| Failure(format!("an odd line: {line:?}")))?;
                ensure_eq!(told, next, "(a line of the log)");
                next += 1;
            }
            fs::remove_file(path)?;
        }
    }
}

/// Prints about five numbered lines per second.
const TICKING: &str = "n=0; while :; do n=$((n+1)); echo tick $n; usleep 200000; done";
/// The pause between two uses of a stream.
const BREATH: Duration = Duration::from_secs(2);
