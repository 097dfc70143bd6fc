//! Idle clients of the CRI socket: dead ones are disconnected, and quiet ones are not.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dockbridge::{
    app::{
        self,
        environment::{Deadlines, Environment},
        error::AppError,
    },
    model::network::NetworkMode,
    rpc::server::ClientTimeouts,
    wire::cri::{VersionRequest, runtime_service_client::RuntimeServiceClient},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::transport::Endpoint;

use crate::clock::forward;
use crate::support::{
    bridge::{LONG, Node, TIMEOUT, deadlines, docker, locks},
    fake_dockerd::server::FakeDockerd,
};

struct Served {
    node: Node,
    _docker: FakeDockerd,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), AppError>>,
}

impl Served {
    async fn with(client_timeouts: ClientTimeouts) -> Self {
        let (node, docker) = (Node::new(), docker().await);
        let settings = node.settings(docker.socket(), NetworkMode::Docker);
        let environment = Environment { locks: locks(&docker), ..Environment::default() };
        let deadlines = Deadlines { client_timeouts, ..deadlines(LONG) };
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(app::run_within(settings, environment, deadlines, async {
            let _ = stopped.await;
        }));
        Self { node, _docker: docker, stop, served }
    }

    async fn connected(&self) -> UnixStream {
        let path = self.node.path("cri.sock");
        let connecting = async {
            loop {
                if let Ok(stream) = UnixStream::connect(&path).await {
                    return stream;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, connecting).await.expect("it listens")
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        timeout(LONG, self.served).await.unwrap().unwrap().unwrap();
    }
}

/// Reads until the other side closes the connection.
async fn until_closed(stream: &mut UnixStream) {
    let mut buffer = [0; 4096];
    let reading = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    timeout(LONG, reading).await.expect("it is closed");
}

const FOREVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_client_without_a_preface_is_disconnected() {
    let preface = Duration::from_millis(300);
    let served =
        Served::with(ClientTimeouts { preface, ping_interval: FOREVER, pong: FOREVER }).await;
    let mut mute = served.connected().await;
    let mut slow = served.connected().await;
    slow.write_all(b"PRI * HTTP/2").await.unwrap();
    until_closed(&mut mute).await;
    until_closed(&mut slow).await;
    served.end().await;
}

#[tokio::test]
async fn a_client_without_a_pong_is_disconnected() {
    let (ping_interval, pong) = (Duration::from_millis(200), Duration::from_millis(200));
    let served = Served::with(ClientTimeouts { preface: FOREVER, ping_interval, pong }).await;
    let mut dead = served.connected().await;
    dead.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    until_closed(&mut dead).await;
    served.end().await;
}

// A client that makes no call but answers pings stays connected, like kubelet between two polls on a quiet node.
#[tokio::test]
async fn who_is_only_quiet_stays() {
    let ping_interval = Duration::from_millis(100);
    let preface = TIMEOUT;
    let served = Served::with(ClientTimeouts { preface, ping_interval, pong: LONG }).await;
    drop(served.connected().await);
    let made = Arc::new(AtomicUsize::new(0));
    let mut client = RuntimeServiceClient::new(counted(&served.node.path("cri.sock"), &made).await);
    for _ in 0..2 {
        client.version(VersionRequest::default()).await.unwrap();
        sleep(ping_interval * 3).await;
        forward(preface * 2).await;
    }
    client.version(VersionRequest::default()).await.unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 1, "it had to connect again");
    served.end().await;
}

async fn counted(path: &Path, made: &Arc<AtomicUsize>) -> tonic::transport::Channel {
    let (path, made) = (path.to_owned(), Arc::clone(made));
    let connect = tower::service_fn(move |_: http::Uri| {
        let path = path.clone();
        made.fetch_add(1, Ordering::SeqCst);
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://socket").connect_with_connector(connect).await.unwrap()
}
