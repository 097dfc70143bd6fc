//! Connecting to a port of a pod, from inside its network.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as Blocking},
    path::Path,
    time::Duration,
};

use thiserror::Error;
use tokio::{net::TcpStream, task::spawn_blocking};

use super::place::Place;
use crate::host::{error::HostError, netns};

/// Nobody could be connected to.
#[derive(Debug, Error)]
pub(super) enum DialError {
    /// Nobody listens there, or not in time.
    #[error("connecting to port {port}: 127.0.0.1: {first}; ::1: {second}")]
    Refused {
        /// The port.
        port: u16,
        /// The kernel's answer for IPv4.
        first: io::Error,
        /// The kernel's answer for IPv6.
        second: io::Error,
    },
    /// The pod's network cannot be entered.
    #[error(transparent)]
    Network(#[from] HostError),
    /// The process whose network it was has gone.
    #[error("the pod has ended")]
    Ended,
    /// The socket could not be taken over.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Connects to `port` of the loopback in `place`: IPv4, then IPv6. Takes [`PATIENCE`] for each
/// at most.
pub(super) async fn connect(place: Place, port: u16) -> Result<TcpStream, DialError> {
    let dialled = spawn_blocking(move || match place {
        Place::Host => dial(port),
        Place::Pinned(path) => within(&path, port),
        Place::OfProcess(path) if netns::is_our_own(&path) => Err(DialError::Ended),
        Place::OfProcess(path) => within(&path, port),
    });
    let socket = dialled.await.map_err(io::Error::other)??;
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok(TcpStream::from_std(socket)?)
}

/// The thread inside ends with this call; the socket stays in the network it was made in.
fn within(path: &Path, port: u16) -> Result<Blocking, DialError> {
    netns::within(path, || Ok(dial(port)))?
}

fn dial(port: u16) -> Result<Blocking, DialError> {
    let to = |address: SocketAddr| Blocking::connect_timeout(&address, PATIENCE);
    let first = match to((Ipv4Addr::LOCALHOST, port).into()) {
        Ok(socket) => return Ok(socket),
        Err(error) => error,
    };
    to((Ipv6Addr::LOCALHOST, port).into()).map_err(|second| DialError::Refused {
        port,
        first,
        second,
    })
}

/// A loopback answers at once, unless a filter swallows the question.
const PATIENCE: Duration = Duration::from_secs(5);
