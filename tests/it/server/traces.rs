//! Tests the spans that a collector receives from dockbridge: spans of CRI calls belong to the caller's trace, if any,
//! and have child spans for calls to the engine and to CNI plugins.

use std::time::Duration;

use dockbridge::{
    app::environment::Environment,
    config::settings::TracingSettings,
    model::network::NetworkMode,
    telemetry::otlp::message::{ExportTraceServiceRequest, Span},
    wire::cri,
};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};
use tracing::subscriber::DefaultGuard;

use super::networks::{NetnsThread, well};
use crate::support::{
    bridge::{Bridge, LONG, Node, docker, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
    subscribers::recording,
};

#[tokio::test]
async fn a_call_is_a_part_of_its_callers_trace() {
    let Some(netns_thread) = NetnsThread::new() else { return };
    let docker = docker().await;
    docker.world(|world| world.pid = netns_thread.tid);
    let (endpoint, mut received) = collector().await;
    let (environment, node, _noting) = environment(&endpoint, 0);
    node.network("fake");
    well(&node);
    let bridge = Bridge::start_in(environment, node, &docker, NetworkMode::Cni).await;
    bridge.pods().await.unwrap();
    let id = run_traced(&bridge).await.unwrap();

    let mut spans = Vec::new();
    while !spans.iter().any(|span: &Span| span.name == "RunPodSandbox") {
        spans.extend(timeout(SOON, received.recv()).await.unwrap().unwrap());
    }
    let rpc = spans.iter().find(|span| span.name == "RunPodSandbox").unwrap();
    assert_eq!((rpc.parent_span_id.as_slice(), rpc.kind), (&[0xcd; 8][..], 2));
    assert_eq!(value(rpc, "about"), Some("it/traced"));
    assert!(rpc.status.is_none() && rpc.end_time_unix_nano > rpc.start_time_unix_nano);
    // At the sampling rate 0, background work and calls without a caller's trace, here ListPodSandbox, have no spans.
    assert!(spans.iter().all(|span| span.trace_id == [0xab; 16]), "{spans:#?}");
    let below: Vec<&Span> =
        spans.iter().filter(|span| span.parent_span_id == rpc.span_id).collect();
    let called = |name: &str| below.iter().find(|span| span.name == name).expect(name);
    assert_eq!(called("docker start").kind, 3);
    assert_eq!(value(called("docker start"), "call"), Some(&*format!("start container {id}")));
    assert_eq!(value(called("cni ADD fake"), "container"), Some(&*id));
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_failed_call_has_its_error() {
    let docker = docker().await;
    let (endpoint, mut received) = collector().await;
    let (environment, node, _noting) = environment(&endpoint, 1_000_000);
    let bridge = start(environment, node, &docker).await;
    let request = cri::ContainerStatusRequest { container_id: "none".into(), verbose: false };
    bridge.runtime.clone().container_status(request).await.unwrap_err();
    loop {
        let batch = timeout(SOON, received.recv()).await.unwrap().unwrap();
        if let Some(rpc) = batch.iter().find(|span| span.name == "ContainerStatus") {
            let status = rpc.status.clone().unwrap();
            assert_eq!((status.code, status.message.as_str()), (2, "NotFound"));
            break;
        }
    }
    bridge.stop().await;
}

/// Like log lines, spans have fields such as the name of an image, and must not contain a password.
#[tokio::test]
async fn a_password_in_the_name_of_an_image_is_in_no_span() {
    let docker = docker().await;
    let (endpoint, mut received) = collector().await;
    let (environment, node, _noting) = environment(&endpoint, 1_000_000);
    let bridge = start(environment, node, &docker).await;
    let name = "user:S3CR3T@registry.example/x";
    bridge.pull(name).await.unwrap_err();
    bridge.remove_image(name).await.unwrap();
    let mut spans = Vec::new();
    while !spans.iter().any(|span: &Span| span.name == "RemoveImage") {
        spans.extend(timeout(SOON, received.recv()).await.unwrap().unwrap());
    }
    let rpc = spans.iter().find(|span| span.name == "RemoveImage").unwrap();
    assert_eq!(value(rpc, "about"), Some("registry.example/x"));
    assert!(!format!("{spans:?}").contains("S3CR3T"), "{spans:#?}");
    bridge.stop().await;
}

/// The start of a pod continues after its caller has disconnected. The span of RunPodSandbox ends when the
/// caller disconnects, before the span of the engine's create ends.
#[tokio::test]
async fn a_call_whose_caller_leaves_is_no_long_success() {
    let docker = docker().await;
    let (endpoint, mut received) = collector().await;
    let (environment, node, _noting) = environment(&endpoint, 0);
    let bridge = start(environment, node, &docker).await;
    let late = Fault::Late(Duration::from_secs(1));
    docker.inject(Rule::new("POST /containers/create", late).times(1));
    tokio::select! {
        done = run_traced(&bridge) => panic!("{done:?}"),
        () = eventually(|| docker.count("POST /containers/create") == 1) => {}
    }
    let mut spans = Vec::new();
    while !spans.iter().any(|span: &Span| span.name == "RunPodSandbox") {
        spans.extend(timeout(SOON, received.recv()).await.unwrap().unwrap());
    }
    let span = |name: &str| spans.iter().find(|span| span.name == name).expect(name);
    let status = span("RunPodSandbox").status.clone().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "Cancelled"));
    let end = |name: &str| span(name).end_time_unix_nano;
    assert!(end("RunPodSandbox") < end("docker create"), "{spans:#?}");
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn what_is_left_is_delivered_at_the_end() {
    let docker = docker().await;
    let (endpoint, mut received) = collector().await;
    let (environment, node, _noting) = environment(&endpoint, 1_000_000);
    let bridge = start(environment, node, &docker).await;
    bridge.ready().await.unwrap();
    bridge.stop().await;
    let mut names = Vec::new();
    while let Ok(batch) = received.try_recv() {
        names.extend(batch.into_iter().map(|span| span.name));
    }
    assert!(names.iter().any(|name| name == "Status"), "{names:?}");
}

#[tokio::test]
async fn a_dead_collector_changes_nothing() {
    let docker = docker().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // First, the collector accepts connections and never answers. Then no program listens at the collector's address.
    for dead in [Some(listener), None] {
        let (environment, node, _noting) = environment(&endpoint, 1_000_000);
        let bridge = start(environment, node, &docker).await;
        for _ in 0..3000 {
            bridge.ready().await.unwrap();
        }
        run_traced(&bridge).await.unwrap();
        bridge.clear(&docker).await;
        bridge.stop().await;
        drop(dead);
    }
}

async fn start(environment: Environment, node: Node, docker: &FakeDockerd) -> Bridge {
    Bridge::start_in(environment, node, docker, NetworkMode::Docker).await
}

/// Calls RunPodSandbox with a trace context, like a kubelet with tracing.
async fn run_traced(bridge: &Bridge) -> Result<String, Status> {
    let mut request = Request::new(cri::RunPodSandboxRequest {
        config: Some(pod("traced")),
        ..Default::default()
    });
    let header = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
    request.metadata_mut().insert("traceparent", header.parse().unwrap());
    Ok(bridge.runtime.clone().run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
}

/// The environment of a dockbridge that sends spans to the collector at `endpoint`. While the guard exists, spans of
/// this thread, in which the tasks of the test run, are sent.
fn environment(endpoint: &str, per_million: u32) -> (Environment, Node, DefaultGuard) {
    let (spans, noting) = recording();
    let mut node = Node::new();
    node.tracing = TracingSettings { endpoint: Some(endpoint.to_owned()), per_million };
    (Environment { spans, ..Environment::default() }, node, noting)
}

/// Starts a fake OTLP collector. Returns its endpoint, and a receiver for the spans of each request to it.
pub(super) async fn collector() -> (String, mpsc::UnboundedReceiver<Vec<Span>>) {
    let (told, received) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().add_service(fake::Service(told));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (endpoint, received)
}

fn value<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    attribute.value.as_ref()?.string_value.as_deref()
}

/// A gRPC service like the code that tonic would generate from OTLP's definition.
mod fake {
    use std::{
        convert::Infallible,
        future::{Ready, ready},
        task::{Context, Poll},
    };

    use futures_util::future::BoxFuture;
    use tonic::{
        body::Body,
        server::{Grpc, NamedService, UnaryService},
    };
    use tonic_prost::ProstCodec;
    use tower::Service as Tower;

    use super::{ExportTraceServiceRequest, Request, Response, Span, Status, mpsc};

    #[derive(Clone)]
    pub(super) struct Service(pub(super) mpsc::UnboundedSender<Vec<Span>>);

    impl NamedService for Service {
        const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
    }

    impl Tower<http::Request<Body>> for Service {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            assert!(request.uri().path().ends_with("TraceService/Export"));
            let export = Export(self.clone());
            Box::pin(
                async move { Ok(Grpc::new(ProstCodec::default()).unary(export, request).await) },
            )
        }
    }

    struct Export(Service);

    impl UnaryService<ExportTraceServiceRequest> for Export {
        type Response = ();
        type Future = Ready<Result<Response<()>, Status>>;

        fn call(&mut self, request: Request<ExportTraceServiceRequest>) -> Self::Future {
            let batch = request.into_inner().resource_spans.remove(0);
            let service = batch.resource.unwrap().attributes.remove(0);
            assert_eq!(service.value.unwrap().string_value.unwrap(), "dockbridge");
            let _ =
                self.0.0.send(batch.scope_spans.into_iter().flat_map(|one| one.spans).collect());
            ready(Ok(Response::new(())))
        }
    }
}

const SOON: Duration = LONG;
