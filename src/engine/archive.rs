//! Reads single paths of a container, running or not (Docker's archive API), and exports the files of its root
//! file system.
//!
//! If a part of a path before the last is a symbolic link, the engine follows the link as seen inside the container.
//! If the last part of the path is a link, the engine does not follow the link but reports its target.

use std::io::{self, Read as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method, body::Incoming};
use serde::Deserialize;
use tar::EntryType;
use tokio::time::timeout;

use super::{
    api_path,
    client::{Engine, collect},
    error::{Call, EngineError, Subject},
    request::ApiRequest,
};
use crate::wire::nullable::nullable;

/// The type of a path in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file with this size in bytes.
    File(u64),
    Directory,
    /// A symbolic link, with its target, a path inside the container that might not exist.
    Link(String),
    /// Anything else, such as a device, a pipe or a socket.
    Other,
}

/// The files of a container's root file system without its mounts, as an archive that arrives in pieces.
#[derive(Debug)]
pub struct Export {
    request: ApiRequest,
    body: Incoming,
}

impl Export {
    /// The next piece of the archive; None at its end. Fails if the connection breaks, or if nothing
    /// arrives within the call's timeout.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        let (call, limit) = (&self.request.call, self.request.timeout);
        match timeout(limit, self.body.frame()).await {
            Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(error))) => Err(call.broken(error)),
            Ok(None) => Ok(None),
            Err(_) => Err(call.late(limit)),
        }
    }
}

impl Engine {
    /// Exports the files of a container's root file system, without its mounts. [`EngineError::NotFound`] if the
    /// container does not exist.
    pub async fn export(&self, id: &str) -> Result<Export, EngineError> {
        let request = self.request(Method::GET, "export", Subject::container(id), "/export")?;
        let body = self.begin(&request).await?;
        Ok(Export { request, body })
    }

    /// The type of an absolute path in a container. None if the path does not exist.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if the container is missing, [`EngineError::Failed`] if links form a loop.
    pub async fn path_kind(&self, id: &str, path: &str) -> Result<Option<PathKind>, EngineError> {
        let request = self.archive(Method::HEAD, id, path)?;
        match self.beginning(&request).await {
            Ok(answer) => kind(&request.call, answer.headers()).map(Some),
            // A failed HEAD has no body, so it does not say whether the path or the container is missing.
            Err(EngineError::NotFound { .. } | EngineError::Failed { .. }) => {
                let request = self.archive(Method::GET, id, path)?;
                let answer = present(self.beginning(&request).await)?;
                answer.map(|answer| kind(&request.call, answer.headers())).transpose()
            }
            Err(error) => Err(error),
        }
    }

    /// The content of a regular file at an absolute path in a container. None if the path does not exist, is
    /// not a regular file, or has more than `limit` bytes.
    pub async fn read_path(
        &self,
        id: &str,
        path: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let read = self.archive(Method::GET, id, path)?;
        let Some(answer) = present(self.beginning(&read).await)? else { return Ok(None) };
        match kind(&read.call, answer.headers())? {
            PathKind::File(size) if size <= limit => {
                let largest = usize::try_from(limit).unwrap_or(usize::MAX);
                let largest = largest.saturating_add(AROUND_A_FILE);
                let collecting = collect(&read.call, answer.into_body(), largest);
                let archive = timeout(read.timeout, collecting).await;
                let archive = archive.map_err(|_| read.call.late(read.timeout))??;
                let bytes = first_file(&archive);
                bytes.map(Some).map_err(|reason| read.call.garbled(reason.to_string()))
            }
            _ => Ok(None),
        }
    }

    fn archive(&self, method: Method, id: &str, path: &str) -> Result<ApiRequest, EngineError> {
        let subject = Subject::Path(format!("{id}:{path}"));
        let target = api_path::container(id, "/archive");
        let target = target.map(|target| api_path::with_query(&target, &[("path", path)]));
        let call = Call { verb: "stat", subject };
        Ok(ApiRequest::new(call, method, target, self.timeouts().short)?.repeatable())
    }
}

/// None if the path does not exist or leads through a file. For a path through a file, the engine has no
/// separate status code, but its text ends with the kernel's text for ENOTDIR.
fn present<T>(outcome: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(EngineError::NotFound { subject: Subject::Path(_), .. }) => Ok(None),
        Err(EngineError::Failed { message, .. }) if message.ends_with(NOT_A_DIRECTORY) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The type of the path, from a header of the answer.
pub(super) fn kind(call: &Call, headers: &HeaderMap) -> Result<PathKind, EngineError> {
    let stat = headers.get(STAT);
    let stat = stat.ok_or_else(|| call.garbled("the header with the path's stat is missing"))?;
    let json = BASE64_STANDARD.decode(stat.as_bytes());
    let json = json.map_err(|_| call.garbled("the header with the path's stat is not base64"))?;
    let stat = serde_json::from_slice::<Stat>(&json);
    let stat = stat.map_err(|_| call.garbled("the path's stat is not the expected JSON"))?;
    Ok(match stat.mode & KINDS {
        0 => PathKind::File(u64::try_from(stat.size).unwrap_or_default()),
        DIRECTORY => PathKind::Directory,
        LINK => PathKind::Link(stat.link_target),
        _ => PathKind::Other,
    })
}

/// The JSON in the header with the properties of a path.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stat {
    #[serde(deserialize_with = "nullable")]
    size: i64,
    /// A Go `FileMode`, whose upper bits differ from the mode bits of Unix.
    #[serde(deserialize_with = "nullable")]
    mode: u32,
    #[serde(deserialize_with = "nullable")]
    link_target: String,
}

/// The content of an archive's first entry, which must be a regular file. Entries that only describe other entries
/// (long names, times, attributes) do not count.
pub(super) fn first_file(archive: &[u8]) -> io::Result<Vec<u8>> {
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => {}
            EntryType::Regular => {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                let is_whole = u64::try_from(bytes.len()) == Ok(entry.size());
                return if is_whole { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            _ => return Err(io::Error::other("Docker's tar does not begin with a regular file")),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

pub(super) const STAT: &str = "x-docker-container-path-stat";
/// The end of the engine's error text for a path that leads through a file.
const NOT_A_DIRECTORY: &str = "not a directory";

const DIRECTORY: u32 = 1 << 31;
const LINK: u32 = 1 << 27;
/// The bits for files that are not regular: directories, links, pipes, sockets, devices, unknown types.
const KINDS: u32 = DIRECTORY | LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19;

/// How many bytes the headers, extended attributes and padding of an archive with one file may have.
const AROUND_A_FILE: usize = 256 * 1024;
