//! The socket that plugins connect to. Only root may: a plugin can run anything on this node.

use std::{
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::sleep,
};
use tracing::{info, warn};

use super::service::Shared;
use crate::{
    error::chain,
    host::{error::HostError, file},
};

impl Shared {
    /// Serves plugins, started ones and others, until dockbridge ends.
    pub(super) async fn serve(self: &Arc<Self>) {
        let listening = Arc::clone(self).listen();
        tokio::join!(listening, self.launch_all(), Arc::clone(self).follow());
    }

    async fn listen(self: Arc<Self>) {
        let (path, free) = (self.settings.socket.as_path(), Arc::new(Semaphore::new(MOST_PLUGINS)));
        let inode = || std::fs::symlink_metadata(path).ok().map(|found| found.ino());
        while let Some(listener) = self.bound(path).await {
            let ours = inode();
            info!(socket = %path.display(), "serving NRI plugins");
            tokio::select! {
                () = self.accept(&listener, &free) => {}
                () = until(|| inode() != ours) => {
                    let socket = path.display();
                    warn!(%socket, "the socket of NRI plugins was removed or replaced; making it again");
                }
                () = self.leaving.cancelled() => {
                    // Another runtime may have taken the path.
                    if inode() == ours {
                        let _ = std::fs::remove_file(path);
                    }
                }
            }
        }
    }

    /// The socket, however long it takes; none when dockbridge ends.
    async fn bound(&self, path: &Path) -> Option<UnixListener> {
        let mut is_logged = false;
        while !self.leaving.is_cancelled() {
            match bind(path).await {
                Ok(listener) => return Some(listener),
                Err(error) if !is_logged => {
                    let error = chain(&error);
                    warn!(socket = %path.display(), error, "cannot serve NRI plugins; retrying");
                    is_logged = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(BIND_AGAIN) => {}
                () = self.leaving.cancelled() => {}
            }
        }
        None
    }

    async fn accept(self: &Arc<Self>, listener: &UnixListener, free: &Arc<Semaphore>) {
        loop {
            if free.available_permits() == 0 {
                warn!(limit = MOST_PLUGINS, "too many NRI plugins; a new one waits");
            }
            let permit = Arc::clone(free).acquire_owned().await;
            match listener.accept().await {
                Ok((socket, _)) => {
                    let session = Arc::clone(self).session(socket, None);
                    self.tracker.spawn(async move {
                        session.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    let error = error.to_string();
                    warn!(error, "cannot accept an NRI plugin; retrying");
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }
}

/// Waits until it is so.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(LOOK_EVERY).await;
    }
}

/// Binds the socket in a directory of root's. One that answers belongs to another runtime.
async fn bind(path: &Path) -> Result<UnixListener, HostError> {
    let failed = |action, source| HostError::new(action, path, source);
    if let Some(directory) = path.parent() {
        file::ensure_directory(directory, 0o700)?;
    }
    match UnixStream::connect(path).await {
        Ok(_) => {
            let used =
                "another runtime serves NRI plugins there (containerd does with its CRI plugin)";
            return Err(failed("bind", io::Error::new(io::ErrorKind::AddrInUse, used)));
        }
        Err(_) if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) => {
            let other = io::Error::new(io::ErrorKind::AlreadyExists, "it is not a socket");
            return Err(failed("bind", other));
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| failed("replace", source))?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|source| failed("bind", source))?;
    let root_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, root_only).map_err(|source| failed("protect", source))?;
    Ok(listener)
}

const BIND_AGAIN: Duration = Duration::from_secs(10);
/// containerd removes the socket when it starts, whoever's it is.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// Connections at once, registered or not.
const MOST_PLUGINS: usize = 64;
