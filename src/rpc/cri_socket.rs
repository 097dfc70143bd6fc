//! The sockets on which dockbridge serves the CRI: those of a systemd socket unit, or its own.

use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tracing::warn;

use super::listener::{ListenError, bind};
use crate::{
    host::{file, inherited_socket::InheritedSocket, listening_socket::ListeningSocket},
    model::listen::Listen,
};

/// The path and the inherited sockets that dockbridge will serve, before it accepts connections.
#[derive(Debug)]
pub struct CriSocket {
    path: PathBuf,
    inherited: Vec<InheritedSocket>,
}

/// Listening sockets. Dropping this value removes the socket that dockbridge created, if any.
#[derive(Debug)]
pub struct Opened {
    pub listeners: Vec<UnixListener>,
    /// The socket that dockbridge created. Sockets of systemd stay, and clients wait at them for the next server.
    pub own: Option<ListeningSocket>,
}

impl CriSocket {
    /// Chooses the inherited sockets that `listen` selects. Fails if `listen` requires one and none matches.
    pub fn choose(listen: &Listen, inherited: Vec<InheritedSocket>) -> Result<Self, ListenError> {
        let (chosen, others): (Vec<_>, Vec<_>) =
            inherited.into_iter().partition(|socket| is_meant(listen, socket));
        let path = match (listen, chosen.first()) {
            (Listen::Path(path), _) => path.clone(),
            (Listen::Inherited(_), Some(first)) => first.path.clone(),
            (Listen::Inherited(_), None) => {
                return Err(ListenError::NotInherited {
                    listen: listen.clone(),
                    passed: describe(&others),
                });
            }
        };
        if !others.is_empty() {
            warn!(
                listen = %listen,
                sockets = describe(&others),
                "systemd passed sockets that --listen does not name; not serving these sockets"
            );
        }
        Ok(Self { path, inherited: chosen })
    }

    /// The path to which clients connect: that of the setting, or of the first chosen socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts to listen. Clients may already wait at a socket of systemd. If somebody has removed the file of the
    /// first inherited socket, which systemd does not make again, also listens on a new socket at its path.
    pub async fn open(self) -> Result<Opened, ListenError> {
        let Self { path, inherited } = self;
        let listeners = inherited.into_iter().map(|InheritedSocket { path, listener, .. }| {
            UnixListener::from_std(listener).map_err(|source| ListenError::Io { path, source })
        });
        let mut opened = Opened { listeners: listeners.collect::<Result<_, _>>()?, own: None };
        if opened.listeners.is_empty() || !path.exists() {
            let (own, listener) = bind(&path, MODE, "--listen").await?;
            opened.listeners.push(listener);
            opened.own = Some(own);
        }
        Ok(opened)
    }
}

fn is_meant(listen: &Listen, socket: &InheritedSocket) -> bool {
    match listen {
        Listen::Path(path) => file::is_same(path, &socket.path),
        Listen::Inherited(None) => true,
        Listen::Inherited(Some(name)) => {
            *name == socket.name || *name == socket.descriptor.to_string()
        }
    }
}

const MODE: u32 = 0o660;

/// Names and paths of inherited sockets, for errors and the log.
fn describe(sockets: &[InheritedSocket]) -> String {
    let each =
        sockets.iter().map(|socket| format!("{:?} at {}", socket.name, socket.path.display()));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    //! Tests which sockets dockbridge chooses, and that the sockets of systemd stay.

    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn socket(directory: &Path, name: &str, descriptor: i32) -> InheritedSocket {
        let path = directory.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        InheritedSocket { name: name.to_owned(), descriptor, path, listener }
    }

    #[test]
    fn names_descriptors_and_paths_choose() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(directory.path(), directory.path().join("run")).unwrap();
        let named = |name: &str| Listen::Inherited(Some(name.to_owned()));
        for (listen, wanted) in [
            (Listen::Inherited(None), &["a", "b"][..]),
            (named("b"), &["b"]),
            (named("3"), &["a"]),
            (Listen::Path(directory.path().join("b.sock")), &["b"]),
            (Listen::Path(directory.path().join("run/b.sock")), &["b"]),
            (Listen::Path(directory.path().join("c.sock")), &[]),
        ] {
            let passed = vec![socket(directory.path(), "a", 3), socket(directory.path(), "b", 4)];
            let chosen = CriSocket::choose(&listen, passed).unwrap();
            let names: Vec<_> = chosen.inherited.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, wanted, "{listen}");
            for name in ["a", "b"] {
                std::fs::remove_file(directory.path().join(format!("{name}.sock"))).unwrap();
            }
        }
    }

    #[test]
    fn without_a_socket_of_systemd_the_operator_reads_what_to_start() {
        let directory = tempfile::tempdir().unwrap();
        let refused = CriSocket::choose(&Listen::Inherited(None), Vec::new()).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.starts_with("--listen fd://: systemd passed no socket: "), "{refused}");
        let other = vec![socket(directory.path(), "a", 3)];
        let refused = CriSocket::choose(&Listen::Inherited(Some("b".to_owned())), other);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("--listen fd://b: systemd passed only \"a\" at "), "{refused}");
    }

    #[tokio::test]
    async fn a_socket_of_systemd_is_still_there_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let passed = socket(directory.path(), "cri", 3);
        let kept_by_systemd = passed.listener.try_clone().unwrap();
        let path = passed.path.clone();
        let waiting = UnixStream::connect(&path).unwrap();
        let chosen = CriSocket::choose(&Listen::Inherited(None), vec![passed]).unwrap();
        assert_eq!(chosen.path(), path);
        let Opened { listeners, own } = chosen.open().await.unwrap();
        assert!(own.is_none());
        listeners[0].accept().await.unwrap();
        drop((waiting, listeners));
        UnixStream::connect(&path).unwrap();
        drop(kept_by_systemd);
    }

    #[tokio::test]
    async fn a_socket_of_systemd_without_its_file_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let passed = socket(directory.path(), "cri", 3);
        let path = passed.path.clone();
        std::fs::remove_file(&path).unwrap();
        let chosen = CriSocket::choose(&Listen::Inherited(None), vec![passed]).unwrap();
        let opened = chosen.open().await.unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(opened.own.is_some() && opened.listeners.len() == 2);
    }
}
