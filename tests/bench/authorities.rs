//! What the filter for authorities costs: 100,000 of the smallest calls to a server that does
//! nothing but answer, with the filter and to two without it, in turns in one run: what the two equal
//! ones differ by is what the machine scatters. And the filter alone over the same bytes. Counted is
//! the processor time of the server's thread.
//!
//! Runs anywhere: `cargo run --profile measure --example authorities`. `REQUESTS` and `ROUNDS` change the amounts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement fails by panicking and reports by printing"
)]

#[path = "../../src/rpc/authority_filter.rs"]
#[allow(dead_code, reason = "how a connection begins is of no interest here")]
mod authority_filter;
mod wanted;

use std::{
    convert::Infallible,
    env, fs,
    future::{Ready, ready},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, ready as ready_or_wait},
    thread,
    time::Instant,
};

use authority_filter::AuthorityFilter;
use dockbridge::wire::cri::{
    VersionRequest, VersionResponse, runtime_service_client::RuntimeServiceClient,
};
use futures_util::{StreamExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
    runtime::{Builder, Runtime},
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::{Endpoint, Server, server::Connected},
};
use tonic_prost::ProstCodec;
use tower::Service;

fn main() {
    let (requests, rounds) = (amount("REQUESTS", 100_000), amount("ROUNDS", 5));
    let folder = tempfile::tempdir().unwrap();
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let served =
        [("plain", Reading::Plain), ("as plain", Reading::Plain), ("filtered", Reading::Filtered)]
            .map(|(name, reading)| Served::start(folder.path(), name, reading));
    let recorded = Served::start(folder.path(), "recorded", Reading::Recorded(bytes.clone()));
    recorded.call(requests);
    let (mut without, mut control, mut with) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms up and is not counted. Each begins with another server, and every other
    // one goes backwards.
    for round in 0..=rounds {
        let mut order = [0, 1, 2].map(|turn| (round + turn) % served.len());
        if round % 2 == 1 {
            order.reverse();
        }
        let mut took = [0.0; 3];
        order.into_iter().for_each(|place| took[place] = served[place].call(requests));
        if round > 0 {
            let [plain, as_plain, filtered] = took;
            without.push(plain);
            control.push((as_plain / plain - 1.0) * 100.0);
            with.push((filtered / f64::midpoint(plain, as_plain) - 1.0) * 100.0);
        }
    }
    let without = median(without);
    let alone = median((0..rounds).map(|_| alone(&bytes.lock().unwrap())).collect());
    println!("{requests} calls, ms: {without:.0} without the filter, {alone:.1} the filter alone");
    println!("in each round, %: two equal servers differ by {}", listed(&control));
    println!("in each round, %: more with the filter        {}", listed(&with));
    wanted::at_most("more with the filter, %", median(with), 2.0);
    wanted::at_most("filter alone, % of a call", alone / without * 100.0, 2.0);
}

fn amount(name: &str, default: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn listed(figures: &[f64]) -> String {
    let shown: Vec<String> = figures.iter().map(|figure| format!("{figure:+.1}")).collect();
    format!("{}, median {:+.2}", shown.join(" "), median(figures.to_vec()))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Milliseconds of the filter over what a connection read, in pieces as they are read.
fn alone(bytes: &[u8]) -> f64 {
    let mut bytes = bytes.to_vec();
    let mut filter = AuthorityFilter::new();
    let begun = Instant::now();
    // About one call each.
    bytes.chunks_mut(60).for_each(|piece| filter.overwrite(piece));
    begun.elapsed().as_secs_f64() * 1000.0
}

/// What is done with the bytes that a connection reads.
#[derive(Clone, Debug)]
enum Reading {
    Plain,
    Filtered,
    Recorded(Arc<Mutex<Vec<u8>>>),
}

/// A server on a thread of its own, and a client of it.
struct Served {
    client: Runtime,
    socket: PathBuf,
    /// The kernel's account of the server's thread.
    account: PathBuf,
}

impl Served {
    fn start(folder: &Path, name: &str, reading: Reading) -> Self {
        let socket = folder.join(name);
        let (started, starts) = mpsc::channel();
        let path = socket.clone();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListenerStream::new(UnixListener::bind(path).unwrap());
                started.send(nix::unistd::gettid()).unwrap();
                let connections = listener.map(|stream| Connection::over(stream?, &reading));
                Server::builder().add_service(Answers).serve_with_incoming(connections).await
            })
        });
        let thread = starts.recv().unwrap();
        let account = PathBuf::from(format!("/proc/self/task/{thread}/schedstat"));
        let client = Builder::new_current_thread().enable_all().build().unwrap();
        Self { client, socket, account }
    }

    /// Milliseconds of the server's thread for so many calls, one after the other.
    fn call(&self, requests: usize) -> f64 {
        self.client.block_on(async {
            let endpoint = Endpoint::from_shared(format!("unix://{}", self.socket.display()));
            let channel = endpoint.unwrap().connect().await.unwrap();
            let mut client = RuntimeServiceClient::new(channel);
            client.version(VersionRequest::default()).await.unwrap();
            let before = self.used();
            for _ in 0..requests {
                client.version(VersionRequest::default()).await.unwrap();
            }
            self.used() - before
        })
    }

    fn used(&self) -> f64 {
        let account = fs::read_to_string(&self.account).unwrap();
        let nanoseconds: f64 = account.split(' ').next().unwrap().parse().unwrap();
        nanoseconds / 1e6
    }
}

/// Answers every call with an empty version.
#[derive(Clone, Debug)]
struct Answers;

impl NamedService for Answers {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

impl UnaryService<VersionRequest> for Answers {
    type Response = VersionResponse;
    type Future = Ready<Result<Response<VersionResponse>, Status>>;

    fn call(&mut self, _request: Request<VersionRequest>) -> Self::Future {
        ready(Ok(Response::new(VersionResponse::default())))
    }
}

impl Service<http::Request<Body>> for Answers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _turn: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<VersionResponse, VersionRequest>::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Self, request).await) })
    }
}

/// One like the program's own, but watched by the runtime.
struct Connection {
    stream: UnixStream,
    reading: Reading,
    filter: AuthorityFilter,
}

impl Connection {
    fn over(stream: UnixStream, reading: &Reading) -> io::Result<Self> {
        Ok(Self { stream, reading: reading.clone(), filter: AuthorityFilter::new() })
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready_or_wait!(Pin::new(&mut this.stream).poll_read(turn, buffer))?;
        let read = &mut buffer.filled_mut()[before..];
        match &this.reading {
            Reading::Plain => {}
            Reading::Filtered => this.filter.overwrite(read),
            Reading::Recorded(bytes) => bytes.lock().unwrap().extend_from_slice(read),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(turn, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(turn)
    }

    fn poll_shutdown(self: Pin<&mut Self>, turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(turn)
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
