//! A small NRI plugin for tests. The plugin encodes frames and ttrpc messages from the published protocol,
//! without dockbridge's code for them.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dockbridge::wire::nri;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Notify, mpsc},
    task::JoinHandle,
};

/// A call that dockbridge made to the plugin: the method, the pod and the container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) method: String,
    /// The names of pod and container, and the id of the container or, without a container, of the pod.
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) id: String,
    /// The whole encoded message of the call.
    pub(crate) payload: Vec<u8>,
}

/// The answer of a plugin to a call.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The plugin answers with success and this message.
    Yes(Vec<u8>),
    /// The plugin answers with this error.
    No(&'static str),
    /// The plugin answers with success after the test's notification.
    #[allow(dead_code, reason = "each program of tests has other plugins")]
    Held(Arc<Notify>),
    /// The plugin does not answer.
    Silence,
    /// The plugin answers with bytes that are not a valid message.
    #[allow(dead_code, reason = "each program of tests has other plugins")]
    Garbage,
    /// The plugin closes the connection.
    #[allow(dead_code, reason = "each program of tests has other plugins")]
    Leave,
}

/// An NRI plugin that is connected to dockbridge.
pub(crate) struct Plugin {
    pub(crate) told: Arc<Mutex<Vec<Told>>>,
    calls: mpsc::Sender<(&'static str, Vec<u8>)>,
    answers: mpsc::Receiver<Vec<u8>>,
    pub(crate) ended: JoinHandle<()>,
}

impl Plugin {
    /// Connects a plugin as `index`-`name`, which subscribes to all events and answers with `reply`.
    pub(crate) async fn connect(
        socket: &Path,
        (index, name): (&str, &str),
        reply: impl FnMut(&Told) -> Reply + Send + 'static,
    ) -> Self {
        let mut stream = UnixStream::connect(socket).await;
        let until = Instant::now() + Duration::from_secs(300);
        while stream.is_err() {
            assert!(Instant::now() < until, "{}: {stream:?}", socket.display());
            tokio::time::sleep(Duration::from_millis(10)).await;
            stream = UnixStream::connect(socket).await;
        }
        Self::over(stream.unwrap(), (index, name), reply).await
    }

    /// Registers a plugin on an existing connection.
    pub(crate) async fn over(
        stream: UnixStream,
        (index, name): (&str, &str),
        reply: impl FnMut(&Told) -> Reply + Send + 'static,
    ) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (calls, asked) = mpsc::channel(16);
        let (answered, answers) = mpsc::channel(16);
        let serving = serve(stream, Arc::clone(&told), reply, asked, answered);
        let ended = tokio::spawn(serving);
        let mut plugin = Self { told, calls, answers, ended };
        let who = nri::RegisterPluginRequest {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
            nri_version: String::new(),
        };
        plugin.ask("RegisterPlugin", &who).await;
        plugin
    }

    /// Connects a plugin that accepts every call and changes nothing, and waits for the call Synchronize.
    pub(crate) async fn logger(socket: &Path) -> Self {
        Self::synchronised(socket, ("10", "logger"), |_| Reply::Yes(Vec::new())).await
    }

    /// Connects a plugin that refuses the first call of a method, and waits for the call Synchronize.
    pub(crate) async fn guard(socket: &Path, method: &'static str) -> Self {
        let refused = AtomicBool::new(false);
        let reply = move |told: &Told| {
            let first = told.method == method && !refused.swap(true, Ordering::SeqCst);
            if first { Reply::No("not today") } else { Reply::Yes(Vec::new()) }
        };
        Self::synchronised(socket, ("10", "guard"), reply).await
    }

    /// Connects a plugin, and waits for the call Synchronize.
    pub(crate) async fn synchronised(
        socket: &Path,
        name: (&str, &str),
        reply: impl FnMut(&Told) -> Reply + Send + 'static,
    ) -> Self {
        let plugin = Self::connect(socket, name, reply).await;
        plugin.until("Synchronize").await;
        plugin
    }

    /// Makes a call from the plugin to dockbridge, and returns the answer.
    pub(crate) async fn ask(&mut self, method: &'static str, message: &impl Message) -> Vec<u8> {
        // dockbridge may have disconnected the plugin.
        let _ = self.calls.send((method, message.encode_to_vec())).await;
        self.answers.recv().await.unwrap_or_default()
    }

    /// The methods of the calls so far.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.told.lock().unwrap().iter().map(|told| told.method.clone()).collect()
    }

    /// Waits until the plugin got a call of this method.
    pub(crate) async fn until(&self, method: &str) {
        let until = Instant::now() + Duration::from_secs(300);
        while !self.methods().iter().any(|told| told == method) {
            assert!(Instant::now() < until, "never told {method}: {:?}", self.methods());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn forget(&self) {
        self.told.lock().unwrap().clear();
    }
}

/// A plugin's answers with this adjustment for CreateContainer.
pub(crate) fn adjusts(
    adjust: nri::ContainerAdjustment,
) -> impl Fn(&Told) -> Reply + Send + 'static {
    let answer = nri::CreateContainerResponse { adjust: Some(adjust), ..Default::default() };
    move |told| match told.method.as_str() {
        "CreateContainer" => Reply::Yes(answer.encode_to_vec()),
        _ => Reply::Yes(Vec::new()),
    }
}

async fn serve(
    mut stream: UnixStream,
    told: Arc<Mutex<Vec<Told>>>,
    mut reply: impl FnMut(&Told) -> Reply,
    mut asked: mpsc::Receiver<(&'static str, Vec<u8>)>,
    answered: mpsc::Sender<Vec<u8>>,
) {
    let (mut pending, mut next) = (Vec::new(), 1);
    loop {
        let mut head = [0; 4];
        tokio::select! {
            ask = asked.recv() => {
                let Some((method, payload)) = ask else { return };
                let service = "nri.pkg.api.v1alpha1.Runtime".to_owned();
                let request = Request { service, method: method.to_owned(), payload };
                send(&mut stream, 2, next, 1, &request.encode_to_vec()).await;
                next += 2;
                continue;
            }
            read = stream.read_exact(&mut head) => if read.is_err() { return },
        }
        let channel = u32::from_be_bytes(head);
        let Ok(length) = stream.read_u32().await else { return };
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        if channel == 2 {
            let response = Response::decode(&frame[10..]).unwrap();
            answered.send(response.payload).await.unwrap();
            continue;
        }
        pending.extend(frame);
        let size =
            10 + usize::try_from(u32::from_be_bytes(pending[..4].try_into().unwrap())).unwrap();
        if pending.len() < size {
            continue;
        }
        let message: Vec<u8> = pending.drain(..size).collect();
        let id = u32::from_be_bytes(message[4..8].try_into().unwrap());
        let request = Request::decode(&message[10..]).unwrap();
        let call = call_of(&request);
        told.lock().unwrap().push(call.clone());
        let response = match reply(&call) {
            Reply::Yes(payload) => Response { status: None, payload },
            Reply::No(message) => {
                let status = Status { code: 2, message: message.to_owned() };
                Response { status: Some(status), payload: Vec::new() }
            }
            Reply::Held(permitted) => {
                permitted.notified().await;
                Response { status: None, payload: Vec::new() }
            }
            Reply::Silence => continue,
            Reply::Garbage => {
                let _ = stream.write_all(&[b'?'; 64]).await;
                continue;
            }
            Reply::Leave => return,
        };
        send(&mut stream, 1, id, 2, &response.encode_to_vec()).await;
    }
}

fn call_of(request: &Request) -> Told {
    // In all messages that start with a pod, the next field is the container, if there is one.
    let about = match request.method.as_str() {
        "Configure" | "Synchronize" => nri::StartContainerRequest::default(),
        _ => nri::StartContainerRequest::decode(request.payload.as_slice()).unwrap_or_default(),
    };
    let (pod, container) = (about.pod.unwrap_or_default(), about.container.unwrap_or_default());
    let id = if container.id.is_empty() { pod.id } else { container.id };
    let (method, payload) = (request.method.clone(), request.payload.clone());
    Told { method, pod: pod.name, container: container.name, id, payload }
}

async fn send(stream: &mut UnixStream, channel: u32, id: u32, kind: u8, payload: &[u8]) {
    let mut message = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    message.extend(id.to_be_bytes());
    message.extend([kind, 0]);
    message.extend(payload);
    let mut frame = channel.to_be_bytes().to_vec();
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    // dockbridge may have disconnected the plugin.
    let _ = stream.write_all(&frame).await;
}

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, tag = "1")]
    service: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(bytes = "vec", tag = "3")]
    payload: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}
