//! Sends the requests of commands such as `dockbridge debug` and `dockbridge reload` to the socket of a running
//! dockbridge, and writes the answers.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::{net::UnixStream, runtime, time::timeout};

use super::endpoints::{HEALTH, READY, SOCKET};

/// Why a request to the running dockbridge failed.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error(
        "no dockbridge answers at {}: it does not run, is still starting, runs with another --run-dir, or could not open this socket",
        socket.display()
    )]
    NotRunning { socket: PathBuf, source: io::Error },
    #[error("no permission to connect to {}: run the command as root", socket.display())]
    Forbidden { socket: PathBuf },
    #[error(
        "the dockbridge at {} accepts no connection, or has not answered within {:?}",
        socket.display(),
        TIMEOUT
    )]
    Silent { socket: PathBuf },
    #[error("the connection to the dockbridge at {} broke", socket.display())]
    Broken { socket: PathBuf, source: hyper::Error },
    #[error("cannot send the request to dockbridge")]
    Here(#[from] io::Error),
    #[error("cannot print the answer of dockbridge")]
    Output(#[source] io::Error),
    #[error("cannot build the HTTP request to dockbridge")]
    Request(#[from] http::Error),
}

/// Sends a request to the dockbridge that has this run directory, and writes its answer to `out`. Returns
/// whether the answer was a success.
pub fn run(
    run_dir: &Path,
    (method, path, body): (Method, &'static str, String),
    out: &mut impl Write,
) -> Result<bool, ClientError> {
    let socket = run_dir.join(SOCKET);
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "dockbridge")
        .body(Full::new(Bytes::from(body)))?;
    let asked = runtime.block_on(async { timeout(TIMEOUT, ask(&socket, request)).await });
    let (good, answer) = asked.map_err(|_| ClientError::Silent { socket })??;
    out.write_all(&answer).map_err(ClientError::Output)?;
    Ok(good)
}

/// Prints whether dockbridge works and whether pods can run, and if not, why. Returns true if both answers are yes.
pub fn health(run_dir: &Path, out: &mut impl Write) -> Result<bool, ClientError> {
    let mut good = true;
    for (question, path) in [("alive", HEALTH), ("pods can run", READY)] {
        let mut answer = Vec::new();
        let yes = run(run_dir, (Method::GET, path, String::new()), &mut answer)?;
        let reasons = String::from_utf8_lossy(&answer).trim_end().replace('\n', "; ");
        let answer = if yes { "yes".to_owned() } else { format!("no: {reasons}") };
        writeln!(out, "{question}: {answer}").map_err(ClientError::Output)?;
        good &= yes;
    }
    Ok(good)
}

async fn ask(socket: &Path, request: Request<Full<Bytes>>) -> Result<(bool, Bytes), ClientError> {
    let path = || socket.to_owned();
    let stream = UnixStream::connect(socket).await.map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => ClientError::Forbidden { socket: path() },
        // The socket's queue of waiting connections is full.
        io::ErrorKind::WouldBlock => ClientError::Silent { socket: path() },
        _ => ClientError::NotRunning { socket: path(), source },
    })?;
    let broken = |source| ClientError::Broken { socket: path(), source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let talking = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken)?;
    let good = answer.status().is_success();
    let body = answer.into_body().collect().await.map_err(broken)?.to_bytes();
    talking.abort();
    Ok((good, body))
}

/// How long the running dockbridge may take to answer. A healthy dockbridge needs much less.
const TIMEOUT: Duration = Duration::from_secs(20);
