//! An image registry for tests, which can be slow, stuck or unavailable, or require tokens. An image has one
//! layer, which the registry generates when a test offers the image.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::sleep,
};

use super::failure::Outcome;

/// The running registry. Once the value is dropped, the registry accepts no more connections.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The registry's address, `127.0.0.1:port`.
    pub(crate) address: String,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

/// How the registry answers requests for layers, or all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The registry answers at once.
    #[default]
    Prompt,
    /// The registry sends a layer in forty pieces with a pause before each.
    Slow(Duration),
    /// The registry sends half of a layer, then nothing.
    Stuck,
    /// The registry answers all requests with status 503.
    Unavailable,
}

/// Which clients the registry serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The registry serves all clients.
    #[default]
    Open,
    /// The registry serves only clients with this bearer token, which they get for this refresh token.
    Token { bearer: String, refresh: String },
}

#[derive(Debug, Default)]
struct Shared {
    manner: Manner,
    guard: Guard,
    /// The bodies of answers with their media types, by path.
    things: HashMap<String, (String, Vec<u8>)>,
    requests: Vec<String>,
    abandoned: usize,
}

struct Request {
    method: String,
    path: String,
    authorization: String,
    /// The offset at which a client resumes a transfer.
    from: usize,
    body: String,
}

impl Registry {
    /// Starts an empty registry.
    pub(crate) async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::<Mutex<Shared>>::default();
        let (serving, own) = (Arc::clone(&shared), address.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&serving), own.clone()));
            }
        });
        Ok(Self { address, shared, task })
    }

    /// Offers an image with these tags. The image has one layer, with one file of `size` bytes that starts with
    /// the image's name, and `config` as the configuration of its containers. Returns the manifest's digest.
    pub(crate) fn offer(&self, name: &str, tags: &[&str], size: usize, config: &Value) -> String {
        let layer = layer(name, size);
        let image = json!({
            "architecture": ARCHITECTURE, "os": "linux", "config": config,
            "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
            "history": [{ "created": "2026-01-01T00:00:00Z", "created_by": name }],
        });
        let image = image.to_string().into_bytes();
        let kind = |what: &str| format!("application/vnd.oci.image.{what}");
        let part = |kind: String, bytes: &[u8]| json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind("manifest.v1+json"),
            "config": part(kind("config.v1+json"), &image),
            "layers": [part(kind("layer.v1.tar"), &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let whole = digest(&manifest);
        let mut shared = lock(&self.shared);
        for blob in [image, layer] {
            let path = format!("/v2/{name}/blobs/{}", digest(&blob));
            shared.things.insert(path, ("application/octet-stream".to_owned(), blob));
        }
        for reference in tags.iter().copied().chain([whole.as_str()]) {
            let path = format!("/v2/{name}/manifests/{reference}");
            shared.things.insert(path, (kind("manifest.v1+json"), manifest.clone()));
        }
        whole
    }

    /// Changes how the registry answers requests from now on.
    pub(crate) fn behave(&self, manner: Manner) {
        lock(&self.shared).manner = manner;
    }

    /// Changes which clients the registry serves from now on.
    pub(crate) fn admit(&self, guard: Guard) {
        lock(&self.shared).guard = guard;
    }

    /// The number of requests for layers.
    pub(crate) fn layers_asked(&self) -> usize {
        let shared = lock(&self.shared);
        let layer = |line: &&String| {
            let path = line.strip_prefix("GET ").unwrap_or_default();
            path.contains("/blobs/") && shared.things.get(path).is_some_and(|(_, b)| is_layer(b))
        };
        shared.requests.iter().filter(layer).count()
    }

    /// The number of answers with a layer, sent with [`Manner::Slow`] or [`Manner::Stuck`], whose clients
    /// disconnected before the end.
    pub(crate) fn abandoned(&self) -> usize {
        lock(&self.shared).abandoned
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(stream: TcpStream, shared: Arc<Mutex<Shared>>, address: String) {
    let mut stream = BufReader::new(stream);
    // Some engines try TLS first, and use plain HTTP after an answer without TLS.
    if stream.fill_buf().await.is_ok_and(|bytes| bytes.first() == Some(&TLS_HANDSHAKE)) {
        drop(stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await);
        return;
    }
    while let Some(request) = read(&mut stream).await {
        let line = format!("{} {}", request.method, request.path);
        let (manner, guard, thing) = {
            let mut shared = lock(&shared);
            shared.requests.push(line);
            let thing = shared.things.get(&request.path).cloned();
            (shared.manner, shared.guard.clone(), thing)
        };
        if manner == Manner::Unavailable {
            if answer(&mut stream, "503 Service Unavailable", "", b"", true).await.is_none() {
                return;
            }
            continue;
        }
        let told = match admitted(&guard, &request, &address) {
            Err((status, head, body)) => answer(&mut stream, status, &head, &body, true).await,
            Ok(()) => serve(&mut stream, &request, thing, manner, &shared).await,
        };
        if told.is_none() {
            return;
        }
    }
}

/// Checks whether the request is allowed. The error is the answer to a request for a token, or to a request that
/// is not allowed.
fn admitted(
    guard: &Guard,
    request: &Request,
    address: &str,
) -> Result<(), (&'static str, String, Vec<u8>)> {
    let Guard::Token { bearer, refresh } = guard else { return Ok(()) };
    if request.path.starts_with("/token") {
        let knows = request.body.contains(&format!("refresh_token={refresh}"));
        let token = json!({ "access_token": bearer, "token": bearer, "expires_in": 300 });
        let body = token.to_string().into_bytes();
        let json = "Content-Type: application/json\r\n".to_owned();
        let status = if knows { "200 OK" } else { "401 Unauthorized" };
        return Err((status, json, if knows { body } else { Vec::new() }));
    }
    if request.authorization == format!("Bearer {bearer}") {
        return Ok(());
    }
    let challenge = format!(
        "WWW-Authenticate: Bearer realm=\"http://{address}/token\",service=\"stories\",\
         scope=\"repository:any:pull\"\r\n"
    );
    let body = json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "no token" }] });
    Err(("401 Unauthorized", challenge, body.to_string().into_bytes()))
}

async fn serve(
    stream: &mut BufReader<TcpStream>,
    request: &Request,
    thing: Option<(String, Vec<u8>)>,
    manner: Manner,
    shared: &Mutex<Shared>,
) -> Option<()> {
    let Some((kind, bytes)) = thing else {
        let status = if request.path == "/v2/" { "200 OK" } else { "404 Not Found" };
        return answer(stream, status, "", b"", true).await;
    };
    let head = format!("Content-Type: {kind}\r\nDocker-Content-Digest: {}\r\n", digest(&bytes));
    let sends = request.method == "GET";
    if !sends || manner == Manner::Prompt || !is_layer(&bytes) {
        return answer(stream, "200 OK", &head, &bytes, sends).await;
    }
    let told = drip(stream, &head, (&bytes, request.from), manner).await;
    if told.is_none() {
        lock(shared).abandoned += 1;
    }
    told
}

/// Sends a layer slowly, or only half of it, and returns None if the client disconnects.
async fn drip(
    stream: &mut BufReader<TcpStream>,
    head: &str,
    (bytes, from): (&[u8], usize),
    manner: Manner,
) -> Option<()> {
    let (whole, bytes) = (bytes.len(), bytes.get(from..)?);
    let length = bytes.len();
    let part = format!("Content-Range: bytes {from}-{}/{whole}\r\n", whole - 1);
    let (status, part) = if from == 0 { ("200 OK", "") } else { ("206 Partial Content", &*part) };
    let head = format!("HTTP/1.1 {status}\r\n{head}{part}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let pause = match manner {
        Manner::Slow(pause) => pause,
        Manner::Prompt | Manner::Stuck | Manner::Unavailable => Duration::ZERO,
    };
    for (nth, piece) in bytes.chunks(whole.div_ceil(40)).enumerate() {
        let mut byte = [0];
        tokio::select! {
            // A client that waits for a layer sends no other request on the same connection.
            _ = stream.read(&mut byte) => return None,
            () = sleep(pause) => {}
        }
        if manner == Manner::Stuck && nth == 20 {
            let _ = stream.read(&mut byte).await;
            return None;
        }
        stream.write_all(piece).await.ok()?;
    }
    Some(())
}

async fn answer(
    stream: &mut BufReader<TcpStream>,
    status: &str,
    head: &str,
    body: &[u8],
    sends: bool,
) -> Option<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(if sends { body } else { b"" }).await.ok()
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut authorization, mut length, mut from) = (String::new(), 0, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.trim().clone_into(&mut authorization),
            "content-length" => length = value.trim().parse().ok()?,
            "range" => {
                let start = value.trim().strip_prefix("bytes=")?.split('-').next()?;
                from = start.parse().ok()?;
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    // The query is removed: for a manifest only the path counts, for a token only the body.
    let path = path.split('?').next()?.to_owned();
    Some(Request { method, path, authorization, from, body: String::from_utf8(body).ok()? })
}

/// A layer as a tar archive of one file. The file's content starts with the image's name.
fn layer(name: &str, size: usize) -> Vec<u8> {
    let mut content = name.as_bytes().to_vec();
    content.resize(size.max(name.len()), b'.');
    let mut header = vec![0; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, "filling");
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = content.len().next_multiple_of(512);
    content.resize(padding, 0);
    [header, content, vec![0; 1024]].concat()
}

fn is_layer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"filling\0")
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 22;
/// The registry's name of this machine's architecture.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
