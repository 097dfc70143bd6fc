//! The socket, the connections and the request log of the fake dockerd.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::broadcast,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub(crate) use super::wire::Recorded;
use super::{
    exec,
    fault::{Fault, Rule, matches},
    routes::{self, Answer},
    wire,
    world::World,
};
use crate::support::bridge::LONG;

/// The fake dockerd. If the value is dropped, the socket and all connections are closed.
pub(crate) struct FakeDockerd {
    shared: Arc<Shared>,
    listening: Mutex<CancellationToken>,
    socket: PathBuf,
    directory: TempDir,
}

struct Shared {
    world: Mutex<World>,
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<Recorded>>,
    speaks: Mutex<Speaks>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    abandoned: AtomicUsize,
    silent: AtomicUsize,
    /// Cancelling this token closes every connection. [`FakeDockerd::hang_up`] puts a new token here.
    connections: Mutex<CancellationToken>,
}

/// The oldest and the newest API version of the fake, as minor numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaks {
    pub(crate) newest: u16,
    pub(crate) oldest: u16,
}

impl FakeDockerd {
    /// Starts a fake dockerd with API 1.24 to 1.45 and an empty world.
    pub(crate) async fn start() -> Self {
        Self::start_speaking(45, 24).await
    }

    /// Starts a fake dockerd with API 1.`oldest` to 1.`newest`.
    pub(crate) async fn start_speaking(newest: u16, oldest: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("docker.sock");
        let fake = Self {
            shared: Arc::new(Shared {
                world: Mutex::new(World::new(directory.path().join("root"))),
                rules: Mutex::default(),
                requests: Mutex::default(),
                speaks: Mutex::new(Speaks { newest, oldest }),
                accepted: AtomicUsize::new(0),
                open: AtomicUsize::new(0),
                abandoned: AtomicUsize::new(0),
                silent: AtomicUsize::new(0),
                connections: Mutex::default(),
            }),
            listening: Mutex::default(),
            socket,
            directory,
        };
        fake.listen();
        fake
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A directory for the test, which is removed when this value is dropped.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Adds a rule for later calls. If several rules apply to a call, the one that was added first counts.
    pub(crate) fn inject(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// From now on, calls that match `call` wait until the returned token is cancelled, and are then executed.
    pub(crate) fn hold(&self, call: &str) -> CancellationToken {
        let until = CancellationToken::new();
        self.inject(Rule::new(call, Fault::Held(until.clone())));
        until
    }

    /// From now on, calls that match `call` are executed at once, and answered when the returned token is cancelled.
    pub(crate) fn hold_answer(&self, call: &str) -> CancellationToken {
        let until = CancellationToken::new();
        self.inject(Rule::new(call, Fault::HeldAnswer(until.clone())));
        until
    }

    pub(crate) fn clear_faults(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Reads or changes the state of the fake engine. Some methods of [`World`] also send the event of the change.
    pub(crate) fn world<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut lock(&self.shared.world))
    }

    /// The requests so far, in order, without those before the last [`Self::forget_requests`].
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.requests).clone()
    }

    /// Those of [`Self::requests`] that match a pattern.
    pub(crate) fn matching(&self, pattern: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|r| matches(pattern, &r.call())).collect()
    }

    pub(crate) fn count(&self, pattern: &str) -> usize {
        self.matching(pattern).len()
    }

    pub(crate) fn forget_requests(&self) {
        lock(&self.shared.requests).clear();
    }

    /// The number of connections that the fake has accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The number of connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The number of calls whose client disconnected while the fake prepared the answer, or while one of the faults
    /// `StalledHeaders`, `StalledBody` and `StreamThenStall` held back the answer or its rest.
    pub(crate) fn abandoned(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }

    /// Whether `Late`, `StalledHeaders`, `StalledBody` or `StreamThenStall` holds back an answer now.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.silent.load(Ordering::SeqCst) > 0
    }

    /// Sends bytes unchanged to every open event stream.
    pub(crate) fn send_to_events(&self, bytes: &[u8]) {
        self.world(|world| world.send(bytes));
    }

    /// Closes every connection, including event streams, and continues to listen.
    pub(crate) fn hang_up(&self) {
        std::mem::take(&mut *lock(&self.shared.connections)).cancel();
    }

    /// Stops the fake: closes all connections and removes the socket. The containers and images of the fake engine
    /// stay.
    pub(crate) async fn stop(&self) {
        lock(&self.listening).cancel();
        let _ = std::fs::remove_file(&self.socket);
        self.hang_up();
        eventually(|| self.open() == 0).await;
    }

    /// Starts the fake again after [`Self::stop`], with these API versions.
    pub(crate) fn start_again(&self, newest: u16, oldest: u16) {
        self.speak(newest, oldest);
        self.listen();
    }

    /// From the next request on, the fake has these API versions, as after a quick upgrade.
    pub(crate) fn speak(&self, newest: u16, oldest: u16) {
        *lock(&self.shared.speaks) = Speaks { newest, oldest };
    }

    fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let stop = CancellationToken::new();
        *lock(&self.listening) = stop.clone();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                Connection::spawn(Arc::clone(&shared), stream);
            }
        }));
    }
}

impl Drop for FakeDockerd {
    fn drop(&mut self) {
        lock(&self.listening).cancel();
        self.hang_up();
    }
}

/// Waits until a condition holds, and panics if this takes longer than [`LONG`].
pub(crate) async fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "it never came true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

struct Connection {
    shared: Arc<Shared>,
    stream: UnixStream,
    number: usize,
}

impl Connection {
    fn spawn(shared: Arc<Shared>, stream: UnixStream) {
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        shared.open.fetch_add(1, Ordering::SeqCst);
        let closing = lock(&shared.connections).clone();
        tokio::spawn(async move {
            let connection = Self { shared: Arc::clone(&shared), stream, number };
            let _ = closing.run_until_cancelled_owned(connection.serve()).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }

    async fn serve(mut self) -> io::Result<()> {
        while let Some(mut request) = wire::read(&mut self.stream).await? {
            request.connection = self.number;
            let call = request.call();
            lock(&self.shared.requests).push(request.clone());
            let fault = lock(&self.shared.rules).iter_mut().find_map(|rule| rule.strike(&call));
            let goes_on = match fault {
                None => self.answer(&request).await?,
                Some(fault) => self.fail(&request, fault).await?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The answer of [`World`] to a request, or an error if the client disconnects before the answer is ready.
    async fn decide(&mut self, request: &Recorded) -> io::Result<Answer> {
        let speaks = *lock(&self.shared.speaks);
        let work = routes::answer(&self.shared.world, speaks, request);
        let mut byte = [0];
        tokio::select! {
            answer = work => Ok(answer),
            _ = self.stream.read(&mut byte) => {
                self.shared.abandoned.fetch_add(1, Ordering::SeqCst);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    async fn answer(&mut self, request: &Recorded) -> io::Result<bool> {
        let answer = self.decide(request).await?;
        self.send(answer).await
    }

    async fn send(&mut self, answer: Answer) -> io::Result<bool> {
        match answer {
            Answer::Ping { newest } => {
                let text = format!(
                    "HTTP/1.1 200 OK\r\nApi-Version: {newest}\r\nOstype: linux\r\n\
                     Content-Length: 2\r\n\r\nOK"
                );
                self.stream.write_all(text.as_bytes()).await?;
            }
            Answer::Json(status, body) => {
                wire::write_json(&mut self.stream, status, &body).await?;
            }
            Answer::Archive(stat, body) => {
                let stat = BASE64_STANDARD.encode(stat);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: {stat}\r\n\
                     Content-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                self.stream.write_all(&[head.as_bytes(), &body].concat()).await?;
            }
            Answer::Hijack(takeover) => {
                exec::play(&self.shared.world, &mut self.stream, takeover).await?;
                return Ok(false);
            }
            Answer::Stream(messages) => {
                let chunks = messages.iter().map(|m| format!("{m}\r\n").into_bytes()).collect();
                self.stream_out(chunks).await?;
                self.stream.write_all(b"0\r\n\r\n").await?;
            }
            Answer::Events(feed, kinds, actions) => self.events(feed, &kinds, &actions).await?,
        }
        Ok(true)
    }

    async fn fail(&mut self, request: &Recorded, fault: Fault) -> io::Result<bool> {
        match fault {
            Fault::Status(status, message) => {
                wire::write_json(&mut self.stream, status, &json!({ "message": message })).await?;
            }
            Fault::Answer(status, body) => {
                wire::write_json(&mut self.stream, status, &body).await?;
            }
            Fault::Text(status, body) => wire::write_text(&mut self.stream, status, &body).await?,
            Fault::Reset => return Ok(false),
            Fault::LostAnswer => {
                self.decide(request).await?;
                return Ok(false);
            }
            Fault::Garbage => {
                self.stream.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await?;
                return Ok(false);
            }
            Fault::CutBody | Fault::StalledBody => {
                let body = self.whole_json(request).await?;
                let head = wire::head_of(200, body.len());
                let half = &body[..body.len() / 2];
                self.stream.write_all(format!("{head}{half}").as_bytes()).await?;
                if matches!(fault, Fault::StalledBody) {
                    self.stall().await?;
                }
                return Ok(false);
            }
            Fault::CutJson => {
                let body = self.whole_json(request).await?;
                wire::write_text(&mut self.stream, 200, &body[..body.len() / 2]).await?;
            }
            Fault::StalledHeaders => {
                self.stall().await?;
                return Ok(false);
            }
            Fault::Late(delay) => {
                let silent = Silence::of(&self.shared);
                tokio::time::sleep(delay).await;
                drop(silent);
                return self.answer(request).await;
            }
            Fault::Held(until) => {
                until.cancelled().await;
                return self.answer(request).await;
            }
            Fault::LateAnswer(delay) => {
                let answer = self.decide(request).await?;
                tokio::time::sleep(delay).await;
                return self.send(answer).await;
            }
            Fault::HeldAnswer(until) => {
                let answer = self.decide(request).await?;
                until.cancelled().await;
                return self.send(answer).await;
            }
            Fault::LateUnasked(delay) => {
                tokio::time::sleep(delay).await;
                let speaks = *lock(&self.shared.speaks);
                routes::answer(&self.shared.world, speaks, request).await;
                return Ok(false);
            }
            Fault::CloseAfter => {
                self.answer(request).await?;
                return Ok(false);
            }
            Fault::Stream(chunks) => {
                self.stream_out(chunks).await?;
                self.stream.write_all(b"0\r\n\r\n").await?;
            }
            Fault::StreamThenStall(chunks) => {
                self.stream_out(chunks).await?;
                self.stall().await?;
                return Ok(false);
            }
            Fault::Huge(before, size, after) => self.huge(before, size, &after).await?,
        }
        Ok(true)
    }

    async fn whole_json(&mut self, request: &Recorded) -> io::Result<String> {
        Ok(match self.decide(request).await? {
            Answer::Json(_, body) => body.to_string(),
            _ => "{\"never\": \"whole\"}".to_owned(),
        })
    }

    async fn stream_out(&mut self, chunks: Vec<Vec<u8>>) -> io::Result<()> {
        wire::begin_chunks(&mut self.stream).await?;
        for chunk in chunks {
            wire::write_chunk(&mut self.stream, &chunk).await?;
            // Pauses, so that the client can read each chunk separately.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn huge(&mut self, before: &str, size: u64, after: &str) -> io::Result<()> {
        let length = size + before.len() as u64 + after.len() as u64;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{before}");
        self.stream.write_all(head.as_bytes()).await?;
        let block = vec![b'x'; 1 << 16];
        let mut left = size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            self.stream.write_all(&block[..part]).await?;
            left -= part as u64;
        }
        self.stream.write_all(after.as_bytes()).await
    }

    /// Waits until the client disconnects, and counts the call as abandoned.
    async fn stall(&mut self) -> io::Result<()> {
        let mut byte = [0];
        let _silent = Silence::of(&self.shared);
        let _ = self.stream.read(&mut byte).await;
        self.shared.abandoned.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn events(
        &mut self,
        mut feed: broadcast::Receiver<(Value, Vec<u8>)>,
        kinds: &[String],
        actions: &[String],
    ) -> io::Result<()> {
        wire::begin_chunks(&mut self.stream).await?;
        let mut byte = [0];
        loop {
            let (event, bytes) = tokio::select! {
                message = feed.recv() => match message {
                    Ok(message) => message,
                    Err(_) => return Ok(()),
                },
                // The client sends nothing here, so if this read returns, the client has disconnected.
                _ = self.stream.read(&mut byte) => return Err(io::ErrorKind::BrokenPipe.into()),
            };
            let wanted = |key: &str, list: &[String]| {
                let word = event[key].as_str().unwrap_or_default();
                list.is_empty() || word.is_empty() || list.iter().any(|one| one == word)
            };
            if wanted("Type", kinds) && wanted("Action", actions) {
                wire::write_chunk(&mut self.stream, &bytes).await?;
            }
        }
    }
}

/// Raises `silent` of [`Shared`] by one until this value is dropped.
struct Silence(Arc<Shared>);

impl Silence {
    fn of(shared: &Arc<Shared>) -> Self {
        shared.silent.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.0.silent.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
