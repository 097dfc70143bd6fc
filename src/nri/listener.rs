//! The socket that plugins connect to. Only root may: a plugin can run anything on this node.

use std::{io, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

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
        let (path, mut is_logged) = (self.settings.socket.clone(), false);
        let listener = loop {
            match bind(&path).await {
                Ok(listener) => break listener,
                Err(error) if !is_logged => {
                    let error = chain(&error);
                    warn!(socket = %path.display(), error, "cannot serve NRI plugins; retrying");
                    is_logged = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(BIND_AGAIN) => {}
                () = self.leaving.cancelled() => return,
            }
        };
        info!(socket = %path.display(), "serving NRI plugins");
        let free = Arc::new(Semaphore::new(MOST_PLUGINS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.leaving.cancelled() => break,
            };
            match (accepted, Arc::clone(&free).try_acquire_owned()) {
                (Ok((socket, _)), Ok(permit)) => {
                    let session = Arc::clone(&self).session(socket, None);
                    self.tracker.spawn(async move {
                        session.await;
                        drop(permit);
                    });
                }
                (Ok(_), Err(_)) => {
                    warn!(limit = MOST_PLUGINS, "too many NRI plugins; closing a new connection");
                }
                (Err(error), _) => {
                    let error = error.to_string();
                    warn!(error, "cannot accept an NRI plugin; retrying");
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        // A later server binds anew.
        let _ = std::fs::remove_file(&path);
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
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// Connections at once, registered or not.
const MOST_PLUGINS: usize = 64;
