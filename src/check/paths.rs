//! Checks that the socket and the directories can be used.

use std::{
    fs, io,
    os::unix::{fs::FileTypeExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process,
};

use super::{finding::Finding, subject::Subject};
use crate::model::listen::Listen;

/// Checks the path of the CRI socket.
pub(super) fn listen(listen: &Listen) -> Finding {
    let Some(socket) = listen.path() else {
        return Finding::ok(Subject::Listen, format!("{listen}: systemd passes the sockets"));
    };
    let shown = socket.display();
    match fs::symlink_metadata(socket) {
        Ok(entry) if !entry.file_type().is_socket() => {
            let advice = "remove that file, or choose another path with --listen";
            let seen = format!("{shown} exists and is not a socket");
            return Finding::fail(Subject::Listen, seen, advice);
        }
        Ok(_) => return socket_in_place(socket),
        Err(_) => {}
    }
    let place = socket.parent().unwrap_or(Path::new("/"));
    match try_writing(place) {
        Ok(()) => Finding::ok(Subject::Listen, format!("{shown} is free")),
        Err((place, error)) => {
            let seen = format!("no socket can be created in {}: {error}", place.display());
            Finding::fail(Subject::Listen, seen, OTHER_SOCKET)
        }
    }
}

fn socket_in_place(socket: &Path) -> Finding {
    let shown = socket.display();
    match UnixStream::connect(socket) {
        Ok(_) => Finding::ok(
            Subject::Listen,
            format!("a server, which may be dockbridge, listens on {shown}"),
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let seen = format!("no permission to connect to {shown}: {error}");
            Finding::fail(Subject::Listen, seen, OTHER_SOCKET)
        }
        Err(_) => Finding::ok(
            Subject::Listen,
            format!("no server listens on {shown}; dockbridge will replace the socket"),
        ),
    }
}

/// Checks a directory that dockbridge writes to and, if the directory is missing, creates at its start.
pub(super) fn directory(subject: Subject, flag: &str, path: &Path) -> Finding {
    match try_writing(path) {
        Ok(()) if path.is_dir() => Finding::ok(subject, format!("{} is writable", path.display())),
        Ok(()) => Finding::ok(subject, format!("dockbridge will create {}", path.display())),
        Err((place, error)) => {
            let seen = format!("cannot write to {}: {error}", place.display());
            let advice = format!("run dockbridge as root, or choose another directory with {flag}");
            Finding::fail(subject, seen, advice)
        }
    }
}

/// Creates and removes a test directory in `path`, or in the nearest existing directory above `path`.
pub(super) fn try_writing(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    let existing = path.ancestors().find(|above| above.symlink_metadata().is_ok());
    let place = existing.unwrap_or(Path::new("/")).to_owned();
    let probe = place.join(format!(".dockbridge-check-{}", process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).map_err(|error| (place, error))
}

const OTHER_SOCKET: &str = "run dockbridge as root, or choose another path with --listen";
