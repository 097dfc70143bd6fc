//! Measures the cost of dockbridge's filter for `:authority` headers. The benchmark compares 100,000 of the smallest
//! calls with the filter and 100,000 without it, over one connection to a server that only answers. The server reads
//! the connection with dockbridge's own code. The benchmark switches the filter between short blocks of calls, in the
//! order off, on, on, off or in the order on, off, off, on. So calls with and without the filter use the same thread
//! and memory, and other work on the machine slows both alike. Blocks without the filter are also compared with each
//! other in the same way: their difference is the error of the measurement. The measured value is the processor time of
//! the server's thread.
//!
//! This benchmark needs no engine and no root: `cargo run --profile measure --example authorities`. The
//! environment variable `REQUESTS` changes the number of calls.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement fails by panicking and reports by printing"
)]

// rustfmt would look for the test modules of these files in the wrong directory.
#[rustfmt::skip]
#[path = "../../src/rpc/connection.rs"]
mod connection;
#[rustfmt::skip]
#[path = "../../src/rpc/authority_filter.rs"]
mod filter;
mod wanted;

/// The items of the crate that `connection.rs` uses.
mod host {
    pub(crate) use dockbridge::host::readiness;
}

/// dockbridge's filter, with a switch.
mod authority_filter {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::filter;

    /// Whether connections filter the bytes that they read. The filter's switch changes only between calls,
    /// so that no frame is filtered in part.
    pub(super) static IS_ON: AtomicBool = AtomicBool::new(true);

    #[derive(Debug, Default)]
    pub(super) struct AuthorityFilter(filter::AuthorityFilter);

    impl AuthorityFilter {
        pub(super) fn has_begun(&self) -> bool {
            self.0.has_begun()
        }

        pub(super) fn overwrite(&mut self, bytes: &mut [u8]) {
            if IS_ON.load(Relaxed) {
                self.0.overwrite(bytes);
            }
        }
    }
}

use std::{
    convert::Infallible,
    env, fs,
    future::{Ready, ready},
    path::{Path, PathBuf},
    sync::{atomic::Ordering::Relaxed, mpsc},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use authority_filter::IS_ON;
use connection::Connection;
use dockbridge::wire::cri::{
    VersionRequest, VersionResponse, runtime_service_client::RuntimeServiceClient,
};
use futures_util::{StreamExt as _, future::BoxFuture};
use tokio::{
    net::UnixListener,
    runtime::{Builder, Runtime},
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::{Channel, Endpoint, Server},
};
use tonic_prost::ProstCodec;
use tower::Service;

fn main() {
    let requests = env::var("REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path());
    // The first calls are slower, because memory and caches are new, so they are not measured.
    served.call(requests / 10, true);
    let (mut filtered, mut control) = (Arm::default(), Arm::default());
    for round in 0..requests / (2 * BLOCK) {
        filtered.add(&mut served, round, true);
        control.add(&mut served, round, false);
    }
    println!("{requests} calls each, in blocks of {BLOCK}; µs of the server's thread a call:");
    println!("without, with the filter:  {}", filtered.shown());
    println!("without, without as well:  {}", control.shown());
    let (more, error) = filtered.more();
    wanted::at_most("more with the filter, %", more + 2.0 * error, 2.0);
}

/// Microseconds per call in each group of four blocks: in the two without the filter, and in the two that are
/// compared with them.
#[derive(Default)]
struct Arm {
    without: Vec<f64>,
    compared: Vec<f64>,
}

impl Arm {
    fn add(&mut self, served: &mut Served, round: usize, is_on: bool) {
        let outer_is_compared = round % 2 == 1;
        let (mut without, mut compared) = (0.0, 0.0);
        for is_outer in [true, false, false, true] {
            let is_compared = is_outer == outer_is_compared;
            let took = served.call(BLOCK, is_compared && is_on);
            *if is_compared { &mut compared } else { &mut without } += took;
        }
        self.without.push(without * 1000.0 / (2 * BLOCK) as f64);
        self.compared.push(compared * 1000.0 / (2 * BLOCK) as f64);
    }

    /// How many percent longer the compared blocks took, and the standard error.
    fn more(&self) -> (f64, f64) {
        let middle = mean(&self.differences());
        let squares: Vec<f64> =
            self.differences().iter().map(|one| (one - middle).powi(2)).collect();
        let error = (mean(&squares) / squares.len() as f64).sqrt();
        (self.percent(middle), self.percent(error))
    }

    fn differences(&self) -> Vec<f64> {
        self.without.iter().zip(&self.compared).map(|(without, with)| with - without).collect()
    }

    fn percent(&self, figure: f64) -> f64 {
        figure / mean(&self.without) * 100.0
    }

    fn shown(&self) -> String {
        let (more, error) = self.more();
        let mut differences = self.differences();
        differences.sort_by(f64::total_cmp);
        let at = |of: usize| self.percent(differences[differences.len() * of / 20]);
        format!(
            "{:.2}, {:.2}, {more:+.2} % ± {error:.2}; of ten fours, nine from {:+.1} to {:+.1} %, five from {:+.1} to {:+.1} %",
            mean(&self.without),
            mean(&self.compared),
            at(1),
            at(19),
            at(5),
            at(15)
        )
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// A server on its own thread, and a client of it.
struct Served {
    runtime: Runtime,
    client: RuntimeServiceClient<Channel>,
    /// The file in `/proc` with the processor time of the server's thread.
    account: PathBuf,
}

impl Served {
    fn start(folder: &Path) -> Self {
        let path = folder.join("server");
        let (started, starts) = mpsc::channel();
        let socket = path.clone();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListenerStream::new(UnixListener::bind(path).unwrap());
                started.send(nix::unistd::gettid()).unwrap();
                let connections = listener.map(|stream| Connection::new(stream?, OPENING));
                Server::builder().add_service(Answers).serve_with_incoming(connections).await
            })
        });
        let account =
            PathBuf::from(format!("/proc/self/task/{}/schedstat", starts.recv().unwrap()));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self { runtime, client: RuntimeServiceClient::new(channel), account }
    }

    /// Makes `requests` calls, one after the other, and returns the milliseconds of processor time that the server's
    /// thread used.
    fn call(&mut self, requests: usize, is_on: bool) -> f64 {
        IS_ON.store(is_on, Relaxed);
        let before = self.used();
        self.runtime.block_on(async {
            for _ in 0..requests {
                self.client.version(VersionRequest::default()).await.unwrap();
            }
        });
        let used = self.used() - before;
        IS_ON.store(true, Relaxed);
        used
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

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<VersionResponse, VersionRequest>::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Self, request).await) })
    }
}

/// The calls in a block: so few that other work on the machine affects the blocks of a group alike.
const BLOCK: usize = 250;
const OPENING: Duration = Duration::from_secs(10);
