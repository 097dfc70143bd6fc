//! When systemd is notified and when it is not: with servers that answer, fail, hang or hang up, and with a store that
//! hangs.

use std::{
    future::pending,
    os::unix::net::UnixDatagram,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use tempfile::TempDir;
use tokio::{net::UnixListener, runtime::Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use super::{SelfChecks, Watchdog};
use crate::{
    engine::client::{Engine, Timeouts},
    host::cgroup::Cgroups,
    store::{handle::Store, hooks::NoHooks, oom::OomDetector, settings::StoreSettings},
    telemetry::systemd::Systemd,
    wire::cri::{
        self,
        runtime_service_server::{RuntimeService, RuntimeServiceServer},
    },
};

#[test]
fn a_server_that_answers_is_ready_and_alive_until_it_stops() {
    let systemd = FakeSystemd::start(SECOND);
    let served = serve(&systemd.socket(), Answers::default());
    let watchdog = systemd.start_watchdog();
    for news in ["READY=1", SERVING, "WATCHDOG=1", "WATCHDOG=1"] {
        systemd.until(news);
    }
    watchdog.stop();
    systemd.until("STOPPING=1");
    assert_eq!(systemd.next(), "STATUS=stopping; pods keep running");
    drop(served);
}

#[test]
fn a_refusal_is_a_sign_of_life() {
    let systemd = FakeSystemd::start(SECOND);
    let _served = serve(&systemd.socket(), Answers { refuse: true, ..Answers::default() });
    let _watch = systemd.start_watchdog();
    systemd.until("READY=1");
    while !systemd.next().contains("Docker is away") {}
    systemd.until("WATCHDOG=1");
}

#[test]
fn a_hanging_server_is_not_alive_until_it_answers_again() {
    let systemd = FakeSystemd::start(SECOND);
    let answers = Answers::default();
    let _served = serve(&systemd.socket(), answers.clone());
    let _watch = systemd.start_watchdog();
    systemd.until("WATCHDOG=1");
    answers.deaf.store(true, Ordering::SeqCst);
    systemd.until(SOCKET_FAILED);
    // While the server hangs, no watchdog notification arrives, for longer than one check takes.
    systemd.assert_only_failures();
    answers.deaf.store(false, Ordering::SeqCst);
    systemd.until(SERVING);
    systemd.until("WATCHDOG=1");
}

#[test]
fn a_blocked_runtime_is_not_alive() {
    let systemd = FakeSystemd::start(SECOND);
    let served = serve(&systemd.socket(), Answers::default());
    let _watch = systemd.start_watchdog();
    systemd.until("WATCHDOG=1");
    let release = block(&served);
    systemd.until(SOCKET_FAILED);
    systemd.assert_only_failures();
    drop(release);
    systemd.until("WATCHDOG=1");
}

#[test]
fn a_store_that_hangs_is_not_alive() {
    let systemd = FakeSystemd::start(SECOND);
    let _served = serve(&systemd.socket(), Answers::default());
    let _watch = systemd.start_watchdog();
    systemd.until("WATCHDOG=1");
    let release = block(&systemd.writer);
    systemd.until(STORE_FAILED);
    systemd.assert_only_failures();
    drop(release);
    systemd.until(SERVING);
    systemd.until("WATCHDOG=1");
}

#[test]
fn a_store_that_hangs_from_the_start_is_not_ready() {
    let systemd = FakeSystemd::start(SECOND);
    let release = block(&systemd.writer);
    let _served = serve(&systemd.socket(), Answers::default());
    let _watch = systemd.start_watchdog();
    // On a busy machine, the socket may also answer too late, so other failures may come first.
    while systemd.failure() != STORE_FAILED {}
    systemd.assert_only_failures();
    drop(release);
    let mut heard = systemd.next();
    while FAILURES.contains(&&*heard) {
        heard = systemd.next();
    }
    assert_eq!(heard, "READY=1");
}

#[test]
fn a_socket_that_hangs_up_is_not_served() {
    let systemd = FakeSystemd::start(SECOND);
    let listener = std::os::unix::net::UnixListener::bind(systemd.socket()).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let _watch = systemd.start_watchdog();
    systemd.assert_only_failures();
}

#[test]
fn without_a_watchdog_each_notification_is_sent_once() {
    let systemd = FakeSystemd::start(Duration::ZERO);
    let answers = Answers::default();
    let _served = serve(&systemd.socket(), answers.clone());
    let interval = Duration::from_millis(50);
    let _watch = Watchdog::run(SelfChecks { interval, ..systemd.checks() }).unwrap();
    assert_eq!(systemd.next(), "READY=1");
    assert_eq!(systemd.next(), SERVING);
    let asked = answers.asked.load(Ordering::SeqCst);
    while answers.asked.load(Ordering::SeqCst) < asked + 3 {
        std::thread::sleep(interval);
    }
    assert_eq!(systemd.receive(Duration::ZERO), None);
}

/// A fake systemd, which receives notifications, with a path for the CRI's socket and a store whose engine is away.
struct FakeSystemd {
    directory: TempDir,
    received: mpsc::Receiver<String>,
    watchdog: Duration,
    store: Store,
    /// The runtime of the store's writer task.
    writer: Runtime,
}

impl FakeSystemd {
    fn start(watchdog: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (sent, received) = mpsc::channel();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        std::thread::spawn(move || {
            let mut text = [0; 2000];
            while let Ok(length) = socket.recv(&mut text) {
                let lines = String::from_utf8(text[..length].to_vec()).unwrap();
                if lines.lines().any(|line| sent.send(line.to_owned()).is_err()) {
                    return;
                }
            }
        });
        let writer = runtime();
        let engine = Engine::new(directory.path().join("docker.sock"), Timeouts::default());
        let store = writer.block_on(async {
            let oom = OomDetector::new(Cgroups::default());
            Store::start(engine, Vec::new(), StoreSettings::default(), NoHooks, oom)
        });
        Self { directory, received, watchdog, store, writer }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("cri.sock")
    }

    fn start_watchdog(&self) -> Watchdog {
        Watchdog::run(self.checks()).unwrap()
    }

    fn checks(&self) -> SelfChecks {
        let notify = self.directory.path().join("notify");
        let systemd = Systemd::new(Some(self.watchdog), notify.to_str().unwrap());
        SelfChecks::new(systemd, self.socket(), self.store.clone())
    }

    fn next(&self) -> String {
        self.receive(Duration::from_secs(300)).expect("systemd heard nothing")
    }

    /// Returns the next notification, which must be about a failed check.
    fn failure(&self) -> String {
        let heard = self.next();
        assert!(FAILURES.contains(&&*heard), "{heard}");
        heard
    }

    /// Asserts that systemd receives only notifications about failed checks. Returns when systemd has received nothing
    /// for two seconds.
    fn assert_only_failures(&self) {
        while let Some(heard) = self.receive(Duration::from_secs(2)) {
            assert!(FAILURES.contains(&&*heard), "{heard}");
        }
    }

    fn until(&self, wanted: &str) {
        while self.next() != wanted {}
    }

    fn receive(&self, time_limit: Duration) -> Option<String> {
        self.received.recv_timeout(time_limit).ok()
    }
}

/// A CRI server that answers only the call Status.
#[derive(Clone, Default)]
struct Answers {
    refuse: bool,
    deaf: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl RuntimeService for Answers {
    async fn status(
        &self,
        _request: Request<cri::StatusRequest>,
    ) -> Result<Response<cri::StatusResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.deaf.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        if self.refuse {
            return Err(Status::unavailable("Docker is away"));
        }
        let status = Some(cri::RuntimeStatus::default());
        Ok(Response::new(cri::StatusResponse { status, ..Default::default() }))
    }
}

/// A runtime with one thread, which a task can block.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Blocks the runtime until the returned sender is dropped.
fn block(runtime: &Runtime) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    runtime.spawn(async move {
        begin.send(()).unwrap();
        held.recv()
    });
    begun.recv().unwrap();
    release
}

fn serve(socket: &Path, answers: Answers) -> Runtime {
    let runtime = runtime();
    let listener = runtime.block_on(async { UnixListener::bind(socket).unwrap() });
    let server = Server::builder().add_service(RuntimeServiceServer::new(answers));
    runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    runtime
}

const SECOND: Duration = Duration::from_secs(1);
const SERVING: &str = "STATUS=serving the container runtime interface";
const SOCKET_FAILED: &str = "STATUS=the CRI socket of dockbridge does not answer";
const STORE_FAILED: &str = "STATUS=the store of dockbridge does not answer";
const FAILURES: [&str; 2] = [SOCKET_FAILED, STORE_FAILED];
