//! Direct calls to the engine, without dockbridge.

use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use hyperlocal::{UnixConnector, Uri};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use crate::support::failure::{Outcome, fail};

/// A client of the engine.
#[derive(Clone, Debug)]
pub(crate) struct RawEngine {
    socket: std::path::PathBuf,
    version: String,
    client: Client<UnixConnector, Full<Bytes>>,
}

impl RawEngine {
    /// A client of the engine at `socket` that uses the given API version, e.g. `/v1.45`. If `version` is empty, the
    /// client uses the engine's newest API.
    pub(crate) fn new(socket: &Path, version: &str) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new());
        let client = builder.build(UnixConnector);
        Self { socket: socket.to_owned(), version: version.to_owned(), client }
    }

    /// Creates a container, and returns its id.
    pub(crate) async fn create(&self, name: &str, body: &str) -> Outcome<String> {
        let path = format!("/containers/create?name={name}");
        let answer = self.ask(Method::POST, &path, body).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        Ok(answer["Id"].as_str().unwrap_or_default().to_owned())
    }

    /// Starts a container.
    pub(crate) async fn start(&self, id: &str) -> Outcome {
        self.ask(Method::POST, &format!("/containers/{id}/start"), "").await.map(drop)
    }

    /// Stops a container with a grace period in seconds.
    pub(crate) async fn stop(&self, id: &str, grace: u32) -> Outcome {
        self.ask(Method::POST, &format!("/containers/{id}/stop?t={grace}"), "").await.map(drop)
    }

    /// Removes a container by force, with its anonymous volumes.
    pub(crate) async fn remove(&self, id: &str) -> Outcome {
        let path = format!("/containers/{id}?force=1&v=1");
        self.ask(Method::DELETE, &path, "").await.map(drop)
    }

    /// The process id of a running container, from its inspection.
    pub(crate) async fn pid(&self, id: &str) -> Outcome<u64> {
        let answer = self.get(&format!("/containers/{id}/json")).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        Ok(answer["State"]["Pid"].as_u64().unwrap_or_default())
    }

    /// Creates an exec with pipes, and returns its id.
    pub(crate) async fn create_exec(&self, id: &str, command: &[&str]) -> Outcome<String> {
        let body = serde_json::json!({
            "AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Cmd": command,
        });
        let path = format!("/containers/{id}/exec");
        let answer = self.ask(Method::POST, &path, &body.to_string()).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        Ok(answer["Id"].as_str().unwrap_or_default().to_owned())
    }

    /// Starts an exec, and returns the connection, which then carries the exec's streams.
    pub(crate) async fn start_exec(&self, exec: &str) -> Outcome<UnixStream> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let body = r#"{"Detach":false,"Tty":false}"#;
        let request = format!(
            "POST {}/exec/{exec}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n\
             Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.version,
            body.len(),
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 101") {
            fail!("the engine hands no connection over: {}", String::from_utf8_lossy(&head));
        }
        Ok(stream)
    }

    /// The exit code of an exec whose streams have ended. Inspects the exec until the engine reports the code.
    pub(crate) async fn exec_code(&self, exec: &str) -> Outcome<i64> {
        loop {
            let answer = self.get(&format!("/exec/{exec}/json")).await?;
            let answer: serde_json::Value = serde_json::from_slice(&answer)?;
            if let Some(code) = answer["ExitCode"].as_i64() {
                return Ok(code);
            }
        }
    }

    /// Runs `true` in a container: creates an exec, starts it, reads its output to the end, and inspects it until the
    /// engine also reports the end.
    pub(crate) async fn exec(&self, id: &str) -> Outcome {
        let body = r#"{"AttachStdout":true,"AttachStderr":true,"Cmd":["true"]}"#;
        let answer = self.ask(Method::POST, &format!("/containers/{id}/exec"), body).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        let exec = answer["Id"].as_str().unwrap_or_default();
        let body = r#"{"Detach":false,"Tty":false}"#;
        self.ask(Method::POST, &format!("/exec/{exec}/start"), body).await?;
        loop {
            let answer: serde_json::Value =
                serde_json::from_slice(&self.get(&format!("/exec/{exec}/json")).await?)?;
            match (answer["Running"].as_bool(), answer["ExitCode"].as_i64()) {
                (Some(false), Some(0)) => return Ok(()),
                (Some(false), code) => fail!("exit code {code:?}"),
                _ => {}
            }
        }
    }

    /// Subscribes to the engine's events with these filters, from now on.
    pub(crate) async fn events(&self, filters: &str) -> Outcome<Incoming> {
        let filters = filters.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        Ok(self.send(Method::GET, &format!("/events?filters={filters}"), "").await?.into_body())
    }

    /// Sends a GET request to the engine, and returns the body of the answer.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Bytes> {
        self.ask(Method::GET, path, "").await
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> Outcome<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(Uri::new(&self.socket, &format!("{}{path}", self.version)))
            .header("content-type", "application/json")
            .header("host", "engine")
            .body(Full::from(body.to_owned()))?;
        Ok(self.client.request(request).await?)
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Outcome<Bytes> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if status.is_client_error() || status.is_server_error() {
            fail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}
