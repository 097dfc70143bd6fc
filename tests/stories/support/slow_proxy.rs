//! A proxy in front of the engine's socket. A story can make the proxy delay, hold or fail inspects of containers, and
//! delay or lose the answers to changing requests. Other requests pass unchanged.
//!
//! Each client connection has its own connection to the engine, so a held answer does not delay other clients. The
//! proxy holds the engine's answer and not the request, so the answer contains the state at the time of the request.
//! The proxy parses only the heads of requests, and passes bodies on by their length. After a protocol upgrade or a
//! body without a length, the proxy only copies bytes. A client must wait for each answer before it sends the next
//! request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex as AsyncMutex, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    failure::{Outcome, fail},
    patience::patient,
};

/// The running proxy. Before [`Self::slow`], the proxy delays no answer. Once the value is dropped, the proxy
/// accepts no more connections.
#[derive(Debug)]
pub(crate) struct SlowProxy {
    socket: PathBuf,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// How the proxy answers inspects of containers and changing requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowAnswers {
    /// The delay of inspects, by container.
    pub(crate) delays: BTreeMap<String, Duration>,
    /// Containers whose inspects are answered only after the next [`SlowProxy::slow`] or [`SlowProxy::quick`].
    pub(crate) hanging: BTreeSet<String>,
    /// Containers whose inspects fail, after the delay in `delays`.
    pub(crate) failing: BTreeSet<String>,
    /// What the proxy does with answers to changing requests. The proxy holds or loses only the first answer for each
    /// method and target, so that a repeated request is answered.
    pub(crate) changes: Option<ChangeAnswer>,
}

/// What the proxy does with an answer after the engine has executed the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeAnswer {
    /// The proxy delays the answer by this time.
    Held(Duration),
    /// The proxy closes the connection instead of sending the answer.
    Lost,
}

/// The results for one container, or for one method and target, since the last [`SlowProxy::slow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspects {
    /// The number of requests.
    pub(crate) asked: u32,
    /// The number of requests whose answer was passed on, except repeated changing requests.
    pub(crate) answered: u32,
    /// The number of requests that the proxy answered with a failure.
    pub(crate) failed: u32,
    /// The number of requests whose client disconnected before the answer.
    pub(crate) given_up: u32,
}

/// The results of inspects by container, and of changing requests by method and target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(BTreeMap<String, Inspects>);

impl Seen {
    /// The results for a container's id, or for the method and target of a changing request.
    pub(crate) fn of(&self, id: &str) -> Inspects {
        self.0.get(id).copied().unwrap_or_default()
    }

    fn summary(&self) -> String {
        let sum = |of: fn(&Inspects) -> u32| self.0.values().map(of).sum::<u32>();
        format!(
            "{} of {} containers, {} answered, {} failed, {} given up",
            sum(|inspects| inspects.asked),
            self.0.len(),
            sum(|inspects| inspects.answered),
            sum(|inspects| inspects.failed),
            sum(|inspects| inspects.given_up),
        )
    }
}

#[derive(Debug)]
struct Shared {
    /// The argument of the last [`SlowProxy::slow`], or `None` before it and after [`SlowProxy::quick`].
    slow: watch::Sender<Option<Arc<SlowAnswers>>>,
    seen: watch::Sender<Seen>,
}

impl SlowProxy {
    /// Starts a proxy that listens at `socket`, in front of the engine's socket `engine`.
    pub(crate) fn start(socket: &Path, engine: &Path) -> Outcome<Self> {
        let listener = UnixListener::bind(socket)?;
        let (slow, seen) = (watch::Sender::new(None), watch::Sender::new(Seen::default()));
        let shared = Arc::new(Shared { slow, seen });
        let task = tokio::spawn(serve(listener, engine.to_owned(), Arc::clone(&shared)));
        Ok(Self { socket: socket.to_owned(), shared, task })
    }

    /// The path of the socket at which the proxy listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends the held answers, and from now on answers as `slow` says and counts results from 0.
    pub(crate) fn slow(&self, slow: SlowAnswers) {
        self.shared.seen.send_replace(Seen::default());
        self.shared.slow.send_replace(Some(Arc::new(slow)));
    }

    /// From now on, the proxy passes answers on at once, including those that it holds.
    pub(crate) fn quick(&self) {
        self.shared.slow.send_replace(None);
    }

    /// Waits until the results fulfil `wanted`.
    pub(crate) async fn until(&self, usual: Duration, wanted: impl Fn(&Seen) -> bool) -> Outcome {
        let mut seen = self.shared.seen.subscribe();
        let reached = timeout(patient(usual), seen.wait_for(|seen| wanted(seen))).await;
        if reached.is_err() {
            fail!("the inspects are not as wanted: {}", self.shared.seen.borrow().summary());
        }
        Ok(())
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        self.task.abort();
        fs::remove_file(&self.socket).unwrap_or_default();
    }
}

impl Shared {
    /// Returns what the proxy does with a request. Between [`SlowProxy::slow`] and [`SlowProxy::quick`], also counts
    /// inspects and, if `changes` is set, changing requests.
    fn fate(&self, head: &Head) -> Fate {
        // This receiver only notices changes from now on.
        let slow = self.slow.subscribe();
        let Some(now) = slow.borrow().clone() else { return Fate::Pass };
        if let (Some(target), Some(answer)) = (&head.changes, now.changes) {
            return self.fate_of_change(target, answer, slow);
        }
        let Some(id) = &head.inspected else { return Fate::Pass };
        self.note(id, |inspects| inspects.asked += 1);
        let at = Instant::now() + now.delays.get(id).copied().unwrap_or_default();
        let (fails, hangs) = (now.failing.contains(id), now.hanging.contains(id));
        let until = (fails || !hangs).then_some(at);
        let hold = Hold { id: id.clone(), until, slow, is_lost: false };
        if fails { Fate::Fail(hold) } else { Fate::Hold(hold) }
    }

    fn fate_of_change(
        &self,
        target: &str,
        answer: ChangeAnswer,
        slow: watch::Receiver<Option<Arc<SlowAnswers>>>,
    ) -> Fate {
        let is_repeated = self.seen.borrow().of(target).asked > 0;
        self.note(target, |requests| requests.asked += 1);
        if is_repeated {
            return Fate::Pass;
        }
        let (rest, is_lost) = match answer {
            ChangeAnswer::Held(rest) => (rest, false),
            ChangeAnswer::Lost => (Duration::ZERO, true),
        };
        let until = Some(Instant::now() + rest);
        Fate::Hold(Hold { id: target.to_owned(), until, slow, is_lost })
    }

    fn note(&self, id: &str, change: impl FnOnce(&mut Inspects)) {
        self.seen.send_modify(|seen| change(seen.0.entry(id.to_owned()).or_default()));
    }
}

/// What the proxy does with a request.
enum Fate {
    /// The proxy passes the request and the answer on at once.
    Pass,
    /// The proxy passes the request on at once, and the answer as [`Hold`] says.
    Hold(Hold),
    /// The proxy answers with a failure, and does not pass the request on.
    Fail(Hold),
}

/// How the proxy holds an answer.
struct Hold {
    id: String,
    /// The time at which the answer is sent if `slow` does not change, or `None` for a hanging inspect.
    until: Option<Instant>,
    /// Whether the proxy closes the connection instead of sending the answer.
    is_lost: bool,
    /// If this value changes, the answer is sent at once.
    slow: watch::Receiver<Option<Arc<SlowAnswers>>>,
}

impl Hold {
    /// Waits for the time `until`, a change of `slow` or the client's disconnect. Returns false after a disconnect.
    async fn over(&mut self, left: &CancellationToken) -> bool {
        let time = async {
            match self.until {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = left.cancelled() => false,
            () = time => true,
            _ = self.slow.changed() => true,
        }
    }
}

/// The state that both directions of a connection share.
struct Line {
    shared: Arc<Shared>,
    /// How to hold the next bytes from the engine, or `None` to pass the bytes on at once.
    held: Mutex<Option<Hold>>,
    to_client: AsyncMutex<OwnedWriteHalf>,
    /// This token is cancelled when the client has closed its side, or `upwards` has failed.
    left: CancellationToken,
}

impl Line {
    fn held(&self) -> MutexGuard<'_, Option<Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Hold> {
        self.held().take()
    }
}

async fn serve(listener: UnixListener, engine: PathBuf, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = UnixStream::connect(&engine).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, mut to_server) = server.into_split();
        let line = Arc::new(Line {
            shared: Arc::clone(&shared),
            held: Mutex::default(),
            to_client: AsyncMutex::new(to_client),
            left: CancellationToken::new(),
        });
        let other = Arc::clone(&line);
        tokio::spawn(async move {
            // A connection that breaks counts as ended.
            drop(upwards(from_client, &mut to_server, &other).await);
            other.left.cancel();
            if let Some(hold) = other.take() {
                other.shared.note(&hold.id, |inspects| inspects.given_up += 1);
            }
            to_server.shutdown().await.unwrap_or_default();
        });
        tokio::spawn(async move {
            drop(downwards(from_server, &line).await);
            line.to_client.lock().await.shutdown().await.unwrap_or_default();
        });
    }
}

/// Passes the client's requests on to the engine, or answers them with a failure.
async fn upwards(
    mut client: OwnedReadHalf,
    server: &mut OwnedWriteHalf,
    line: &Line,
) -> io::Result<()> {
    let mut pending = BytesMut::new();
    while let Some(head) = Head::read(&mut client, &mut pending).await? {
        match line.shared.fate(&head) {
            Fate::Pass => {}
            Fate::Hold(hold) => drop(line.held().replace(hold)),
            Fate::Fail(mut hold) => {
                hold.over(&line.left).await;
                line.to_client.lock().await.write_all(FAILURE.as_bytes()).await?;
                line.shared.note(&hold.id, |inspects| inspects.failed += 1);
                continue;
            }
        }
        server.write_all(&head.bytes).await?;
        let Some(length) = head.body else { break };
        let here = pending.split_to(pending.len().min(length));
        server.write_all(&here).await?;
        let rest = u64::try_from(length - here.len()).unwrap_or(0);
        io::copy(&mut (&mut client).take(rest), server).await?;
    }
    server.write_all(&pending).await?;
    io::copy(&mut client, server).await.map(drop)
}

/// Passes each answer of the engine on to the client at its time, or loses the answer.
async fn downwards(mut server: OwnedReadHalf, line: &Line) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = server.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let held = line.take();
        let Some(mut hold) = held else {
            line.to_client.lock().await.write_all(&buffer[..length]).await?;
            continue;
        };
        if hold.is_lost {
            return Ok(());
        }
        if !hold.over(&line.left).await {
            line.shared.note(&hold.id, |inspects| inspects.given_up += 1);
            return Ok(());
        }
        line.to_client.lock().await.write_all(&buffer[..length]).await?;
        line.shared.note(&hold.id, |inspects| inspects.answered += 1);
    }
}

/// The head of a request, without the body.
struct Head {
    bytes: BytesMut,
    /// The container whose inspect is requested, if this is an inspect.
    inspected: Option<String>,
    /// The method and target of a request whose method is neither `GET` nor `HEAD`.
    changes: Option<String>,
    /// The length of the request's body. If it is unknown, the proxy parses no further requests of the connection.
    body: Option<usize>,
}

impl Head {
    /// Reads the head of the next request. At the end of the connection, returns `None`, and `pending` has the start of
    /// an unfinished request, if any.
    async fn read(client: &mut OwnedReadHalf, pending: &mut BytesMut) -> io::Result<Option<Self>> {
        loop {
            if let Some(place) = pending.windows(END.len()).position(|found| found == END) {
                return Ok(Some(Self::of(pending.split_to(place + END.len()))));
            }
            if client.read_buf(pending).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn of(bytes: BytesMut) -> Self {
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let inspected = (method == "GET").then(|| inspected(target)).flatten().map(str::to_owned);
        let changes = (!matches!(method, "GET" | "HEAD")).then(|| format!("{method} {target}"));
        let mut body = Some(0);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => body = body.and(value.trim().parse().ok()),
                "transfer-encoding" | "upgrade" => body = None,
                _ => {}
            }
        }
        Self { inspected, changes, body, bytes }
    }
}

/// The id in the target `/containers/<id>/json`, with or without an API version before it.
fn inspected(target: &str) -> Option<&str> {
    let path = target.split('?').next().unwrap_or_default();
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", "containers", id, "json"] | ["", _, "containers", id, "json"] => Some(id),
        _ => None,
    }
}

const END: &[u8] = b"\r\n\r\n";
const FAILURE: &str = concat!(
    "HTTP/1.1 500 Internal Server Error\r\n",
    "Content-Type: application/json\r\n",
    "Content-Length: 39\r\n\r\n",
    "{\"message\":\"nobody can say what it is\"}",
);
