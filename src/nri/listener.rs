//! The socket to which plugins connect. Only root can connect, because a plugin can run any program on this node.

use std::{io, path::Path, sync::Arc, time::Duration};

use tokio::{net::UnixListener, sync::Semaphore, time::sleep};
use tracing::{info, warn};

use super::service::Shared;
use crate::{
    error::chain,
    host::{
        error::HostError,
        file,
        listening_socket::{BindError, ListeningSocket},
    },
};

impl Shared {
    /// Serves plugins that dockbridge starts, and plugins that connect to the socket, until dockbridge stops.
    pub(super) async fn serve(self: &Arc<Self>) {
        let listening = Arc::clone(self).listen();
        tokio::join!(listening, self.launch_all(), Arc::clone(self).follow());
    }

    async fn listen(self: Arc<Self>) {
        let (path, slots) = (self.settings.socket.as_path(), Arc::new(Semaphore::new(MAX_PLUGINS)));
        while let Some((own, listener)) = self.bind_with_retries(path).await {
            info!(socket = %path.display(), "serving NRI plugins");
            tokio::select! {
                () = self.accept(&listener, &slots) => {}
                () = replaced(&own) => {
                    let socket = path.display();
                    warn!(%socket, "the socket of NRI plugins was removed or replaced; creating it again");
                }
                () = self.shutdown.cancelled() => {}
            }
        }
    }

    /// Tries to bind the socket until this succeeds or dockbridge stops. Returns `None` if dockbridge stops.
    async fn bind_with_retries(&self, path: &Path) -> Option<(ListeningSocket, UnixListener)> {
        let mut is_logged = false;
        while !self.shutdown.is_cancelled() {
            match bind(path).await {
                Ok(bound) => return Some(bound),
                Err(error) if !is_logged => {
                    warn!(socket = %path.display(), error = chain(&error), "cannot create the socket for NRI plugins; retrying");
                    is_logged = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(BIND_RETRY) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
        None
    }

    async fn accept(self: &Arc<Self>, listener: &UnixListener, slots: &Arc<Semaphore>) {
        loop {
            if slots.available_permits() == 0 {
                warn!(
                    limit = MAX_PLUGINS,
                    "the limit of connections to the NRI socket is reached; the next plugin waits until a connection ends"
                );
            }
            let permit = Arc::clone(slots).acquire_owned().await;
            match listener.accept().await {
                Ok((socket, _)) => {
                    let session = Arc::clone(self).session(socket, None);
                    self.tracker.spawn(async move {
                        session.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn!(
                        error = chain(&error),
                        "cannot accept the connection of an NRI plugin; retrying"
                    );
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Waits until the path of our socket is gone or leads to another socket.
async fn replaced(own: &ListeningSocket) {
    while own.is_in_place() {
        sleep(CHECK_INTERVAL).await;
    }
}

/// Binds the socket. Creates its directory, if missing, for root only. Fails if another process answers on this path.
async fn bind(path: &Path) -> Result<(ListeningSocket, UnixListener), HostError> {
    if let Some(directory) = path.parent() {
        file::ensure_directory(directory, 0o700)?;
    }
    ListeningSocket::bind(path, 0o600).await.map_err(|error| {
        let source = match error {
            BindError::Io(source) => source,
            BindError::InUse { .. } => io::Error::new(io::ErrorKind::AddrInUse, USED),
            BindError::NotASocket => io::Error::new(io::ErrorKind::AlreadyExists, error),
        };
        HostError::new("bind", path, source)
    })
}

const USED: &str = "another process, such as containerd, serves the NRI socket";
const BIND_RETRY: Duration = Duration::from_secs(10);
/// How often to check that the NRI socket exists. A containerd with the same socket path removes it when it starts.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
const ACCEPT_RETRY: Duration = Duration::from_secs(1);
/// Maximum number of connections to the NRI socket, including those whose plugin has not registered yet.
const MAX_PLUGINS: usize = 64;
