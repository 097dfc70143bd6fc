//! Reads and writes HTTP/1.1 without a library, so that answers can be invalid on purpose.

use std::{collections::BTreeMap, io};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// A request as the fake dockerd received it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    /// The path and query of the request, exactly as received.
    pub(crate) target: String,
    /// The API version in the path, for example `1.45` for a path that begins with `/v1.45`.
    pub(crate) version: Option<String>,
    /// The percent-decoded path without the API version.
    pub(crate) path: String,
    /// The percent-decoded parameters of the query.
    pub(crate) query: BTreeMap<String, String>,
    /// The request's headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// The number of the request's connection. The first connection has the number 1.
    pub(crate) connection: usize,
}

impl Recorded {
    /// The call as `METHOD /path`, which is compared with patterns.
    pub(crate) fn call(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn parameter(&self, key: &str) -> &str {
        self.query.get(key).map_or("", String::as_str)
    }
}

/// Reads the next request of a connection, or returns `None` if the client has closed the connection.
pub(super) async fn read(stream: &mut UnixStream) -> io::Result<Option<Recorded>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let mut request = head(&String::from_utf8_lossy(&bytes[..end]));
    let length = request.headers.get("content-length").and_then(|text| text.parse().ok());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    request.body = body;
    Ok(Some(request))
}

pub(super) async fn write_json(
    stream: &mut UnixStream,
    status: u16,
    body: &Value,
) -> io::Result<()> {
    write_text(stream, status, &body.to_string()).await
}

pub(super) async fn write_text(stream: &mut UnixStream, status: u16, body: &str) -> io::Result<()> {
    // Answers with status 204 or 304 have neither a body nor a length.
    let head = match status {
        204 | 304 => format!("HTTP/1.1 {status} x\r\n\r\n"),
        _ => head_of(status, body.len()),
    };
    let body = if matches!(status, 204 | 304) { "" } else { body };
    stream.write_all(format!("{head}{body}").as_bytes()).await
}

pub(super) fn head_of(status: u16, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

pub(super) async fn begin_chunks(stream: &mut UnixStream) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await
}

pub(super) async fn write_chunk(stream: &mut UnixStream, chunk: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{:x}\r\n", chunk.len()).into_bytes();
    bytes.extend_from_slice(chunk);
    bytes.extend_from_slice(b"\r\n");
    stream.write_all(&bytes).await
}

fn head(text: &str) -> Recorded {
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let mut request = Recorded {
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        ..Recorded::default()
    };
    let pairs = lines.filter_map(|line| line.split_once(':'));
    request.headers =
        pairs.map(|(key, value)| (key.trim().to_lowercase(), value.trim().to_owned())).collect();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let (version, path) = split_version(path);
    request.version = version;
    request.path = decoded(&path);
    request.query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect();
    request
}

fn split_version(path: &str) -> (Option<String>, String) {
    let versioned = path.strip_prefix("/v1.").and_then(|rest| rest.split_once('/'));
    match versioned {
        Some((minor, rest)) if minor.bytes().all(|b| b.is_ascii_digit()) => {
            (Some(format!("1.{minor}")), format!("/{rest}"))
        }
        _ => (None, path.to_owned()),
    }
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let pair: String = bytes.by_ref().take(2).map(char::from).collect();
        out.push(u8::from_str_radix(&pair, 16).unwrap_or(b'?'));
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A tar archive of one regular file.
pub(super) fn tar(name: &str, text: &str) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let fields = [
        (0, name.to_owned()),
        (124, format!("{:011o}", text.len())),
        (148, " ".repeat(8)),
        (156, "0".to_owned()),
        (257, "ustar".to_owned()),
        (263, "00".to_owned()),
    ];
    for (at, field) in fields {
        header[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = [&header[..], text.as_bytes()].concat();
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}
