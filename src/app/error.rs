//! Errors at the start, and errors that end the server.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{
    admin::server::MetricsAddressError,
    host::{
        error::HostError,
        lock::{Holder, LockError},
    },
    rpc::listener::ListenError,
    streaming::error::BindError,
};

/// Why dockbridge cannot start, or cannot continue to serve.
#[derive(Debug, Error)]
pub enum AppError {
    /// To connect a pod to a CNI network, dockbridge needs capabilities for mounts and for network changes.
    #[error(
        "dockbridge cannot start with --network cni, because it lacks {missing}: no pod could be connected, and \
         port-forward and image volumes could fail. Run dockbridge as root in the host's namespaces, and look for \
         CapabilityBoundingSet= in its systemd unit (dockbridge check lists what else is missing)"
    )]
    MissingCapabilities { missing: String },
    #[error(transparent)]
    State(#[from] HostError),
    /// Another dockbridge uses the state directory, or this one cannot create the directory or its lock.
    #[error("cannot use the state directory {}: {}", state_dir.display(), state_dir_remedy(source))]
    StateDir { state_dir: PathBuf, source: LockError },
    #[error(
        "the Docker Engine {id} at {} is served by another dockbridge, {holder}: stop that dockbridge, or \
         choose another engine for one of the two (--docker)",
        docker.display()
    )]
    EngineInUse { id: String, docker: PathBuf, holder: Holder },
    #[error(
        "the Docker Engine {id} at {} may be served by another dockbridge: cannot take the lock of the \
         engine (run dockbridge as root)",
        docker.display()
    )]
    EngineLock { id: String, docker: PathBuf, source: HostError },
    #[error(
        "cannot use the run directory {} (run dockbridge as root, or choose another --run-dir)",
        run_dir.display()
    )]
    RunDir { run_dir: PathBuf, source: HostError },
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The address of exec, attach and port-forward cannot be used.
    #[error(transparent)]
    Streaming(#[from] BindError),
    #[error("cannot start the watchdog thread")]
    Watchdog(#[source] io::Error),
    #[error(transparent)]
    Metrics(#[from] MetricsAddressError),
    /// The writer task of the store has ended: a bug.
    #[error(
        "internal error: the store stopped; restart dockbridge, and report this bug with the log"
    )]
    StoreStopped,
    #[error("the CRI server failed")]
    Serve(#[from] tonic::transport::Error),
}

const fn state_dir_remedy(source: &LockError) -> &'static str {
    match source {
        LockError::Held { .. } => {
            "stop the other dockbridge, or choose another --state-dir and engine"
        }
        LockError::Host(_) => "run dockbridge as root, or choose another --state-dir",
    }
}
