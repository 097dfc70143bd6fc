//! Connects to a port of a pod from inside its network namespace.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    concurrency::blocking::blocking,
    host::{error::HostError, netns, processes::Processes},
    model::{attachment::Attachment, network::NetworkMode, record::SandboxRecord},
};

#[derive(Debug, Error)]
pub(super) enum DialError {
    #[error("cannot connect to port {port}: 127.0.0.1: {first}; ::1: {second}")]
    Refused { port: u16, first: io::Error, second: io::Error },
    #[error(transparent)]
    Network(#[from] HostError),
    #[error("the pod has ended")]
    Ended,
}

/// The network namespace in which dockbridge connects to a port of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodNetwork {
    Host,
    /// The namespace that is pinned at this path. The pin remains after the pod's processes have ended.
    Pinned(PathBuf),
    /// The process must still belong to `container`, because the kernel may have reused the pid.
    OfProcess {
        pid: u32,
        container: String,
    },
}

impl PodNetwork {
    /// The network of a sandbox. `None` if the sandbox has no network yet, or no longer has one.
    pub(super) fn of(sandbox: &SandboxRecord) -> Option<Self> {
        match sandbox.document.network {
            NetworkMode::Host => Some(Self::Host),
            NetworkMode::Cni => {
                let cni = sandbox.attachment.as_ref().and_then(Attachment::cni)?;
                Some(Self::Pinned(cni.pod.netns.clone()))
            }
            NetworkMode::Docker => {
                let container = sandbox.id.as_str().to_owned();
                Some(Self::OfProcess { pid: sandbox.pid()?, container })
            }
        }
    }
}

/// Connects to `port` on the loopback address in `place`: first with IPv4, and then, if that failed, with IPv6.
/// Each attempt can take up to [`TIMEOUT`].
pub(super) async fn connect(place: PodNetwork, port: u16) -> Result<TcpStream, DialError> {
    let [first, second] = blocking(move || open_in(&place)).await?;
    let first = match reach(first, (Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    let second = reach(second, (Ipv6Addr::LOCALHOST, port).into()).await;
    second.map_err(|second| DialError::Refused { port, first, second })
}

/// Opens a socket for IPv4 and one for IPv6 in the pod's network namespace. One can fail without the other, for example
/// if the kernel does not support IPv6. If the pod does not use the host's network, a thread that ends with this call
/// opens the sockets, which stay in the pod's namespace. tokio connects the sockets later, so a port that drops packets
/// does not block a thread.
fn open_in(place: &PodNetwork) -> Result<[io::Result<TcpSocket>; 2], DialError> {
    let open = || [TcpSocket::new_v4(), TcpSocket::new_v6()];
    match place {
        PodNetwork::Host => Ok(open()),
        PodNetwork::Pinned(path) => Ok(netns::within(path, || Ok(open()))?),
        PodNetwork::OfProcess { pid, container } => {
            let table = Processes::new(PROCESS_TABLE);
            let who = || {
                let found = table.get(*pid).filter(|_| table.is_in_cgroup(*pid, container));
                found.map(|one| one.who).ok_or(DialError::Ended)
            };
            let before = who()?;
            let path = Path::new(PROCESS_TABLE).join(format!("{pid}/ns/net"));
            let sockets = netns::within(&path, || Ok(open()))?;
            // The sockets are the pod's if the pid belonged to the same process before and after they were opened.
            if who()? == before { Ok(sockets) } else { Err(DialError::Ended) }
        }
    }
}

async fn reach(socket: io::Result<TcpSocket>, address: SocketAddr) -> io::Result<TcpStream> {
    let stream = timeout(TIMEOUT, socket?.connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Time limit of a connect. On loopback, the kernel answers at once, unless for example a packet filter drops packets.
const TIMEOUT: Duration = Duration::from_secs(5);
const PROCESS_TABLE: &str = "/proc";
