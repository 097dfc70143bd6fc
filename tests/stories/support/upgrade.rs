//! An HTTP/1.1 request for a protocol upgrade, written by hand, so that stories can also send invalid ones.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    channel::patience,
    failure::{Failure, Outcome, ensure, fail},
};

/// The host and the path of a streaming URL.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The host and the port of the URL, as `host:port`.
    pub(crate) authority: String,
    /// The path, for example `/cri/exec/token`, with the query if there is one.
    pub(crate) path: String,
}

impl Place {
    /// Splits an absolute `http://` URL. kubelet cannot use a relative URL.
    pub(crate) fn of(url: &str) -> Outcome<Self> {
        let Some(rest) = url.strip_prefix("http://") else { fail!("not absolute: {url:?}") };
        let Some((authority, path)) = rest.split_once('/') else { fail!("no path: {url:?}") };
        ensure!(!authority.is_empty(), "no host: {url:?}");
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}") })
    }

    /// The token, which is the last part of the path.
    pub(crate) fn token(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The head of an HTTP answer, and its connection.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The status of the answer, for example `101` or `404`.
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    /// The connection, from which the head of the answer has been read.
    pub(crate) stream: TcpStream,
}

impl Answered {
    /// All values of a header, in order.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a header, or `None` if the header is missing or has several values.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        match self.values(name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }
}

/// Sends an upgrade request, and reads exactly the head of the answer.
pub(crate) async fn ask(
    place: &Place,
    method: &str,
    headers: &[(&str, &str)],
) -> Outcome<Answered> {
    let mut stream = TcpStream::connect(&place.authority).await?;
    stream.set_nodelay(true)?;
    let mut request = format!("{method} {} HTTP/1.1\r\nHost: {}\r\n", place.path, place.authority);
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = timeout(patience(), head(&mut stream)).await.map_err(|_late| {
        Failure(format!("no answer to {method} {} for {:?}", place.path, patience()))
    })??;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let Some(status) = status else { fail!("no HTTP answer: {head:?}") };
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    Ok(Answered { status, headers, stream })
}

async fn head(stream: &mut TcpStream) -> Outcome<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < 64 << 10, "an answer without an end");
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
