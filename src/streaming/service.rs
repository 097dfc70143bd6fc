//! Exec, Attach and PortForward. Each call stores its request under a token and returns a URL with the token.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    metrics::StreamingMetrics,
    token::{MOST_PENDING, Tokens},
    upgrade::Purpose,
};
use crate::{
    engine::client::Engine,
    error::{Failure, Kind},
    model::{
        record::SandboxState,
        stream::{AttachSpec, ExecSpec, ForwardSpec},
    },
    store::handle::Store,
};

/// The service for Exec, Attach and PortForward. Clones share all state.
#[derive(Clone, Debug)]
pub struct Streaming {
    pub(super) engine: Engine,
    pub(super) store: Store,
    tokens: Arc<Mutex<Tokens<PendingStream>>>,
    address: SocketAddr,
    pub metrics: StreamingMetrics,
}

/// A validated request that waits until a client opens its URL. The ids in the request are full ids.
#[derive(Clone, Debug)]
pub(super) enum PendingStream {
    Exec(ExecSpec),
    Attach(AttachSpec),
    Forward(ForwardSpec),
}

impl Streaming {
    /// Creates the service. URLs have `address`, or loopback if `address` means all addresses.
    pub fn new(engine: Engine, store: Store, address: SocketAddr) -> Self {
        let metrics = StreamingMetrics::default();
        Self { engine, store, tokens: Arc::default(), address, metrics }
    }

    /// Prepares a command in a running container. Returns the URL for the client.
    ///
    /// # Errors
    /// Fails for example if no such container runs, or if too many requests wait for their clients.
    pub async fn exec(&self, spec: ExecSpec) -> Result<String, Failure> {
        let container = self.running(&spec.container).await?;
        self.issue(PendingStream::Exec(ExecSpec { container, ..spec }))
    }

    /// Prepares an attach to a container's main process. Returns the URL for the client.
    pub async fn attach(&self, spec: AttachSpec) -> Result<String, Failure> {
        let container = self.running(&spec.container).await?;
        self.issue(PendingStream::Attach(AttachSpec { container, ..spec }))
    }

    /// Prepares connections to ports of a sandbox. Returns the URL for the client.
    ///
    /// # Errors
    /// Fails for example if no such sandbox is ready, or if too many requests wait for their clients.
    pub async fn forward(&self, spec: ForwardSpec) -> Result<String, Failure> {
        let now = self.store.inspected(&spec.sandbox).await?;
        let sandbox = now.known_sandbox(&spec.sandbox)?;
        if sandbox.state() == SandboxState::NotReady {
            return Err(Failure::unmet(format!("sandbox {} is not ready", sandbox.id)));
        }
        let sandbox = sandbox.id.to_string();
        self.issue(PendingStream::Forward(ForwardSpec { sandbox, ..spec }))
    }

    /// Removes and returns the request with this token. `None` if the token is not valid for the kind `name`.
    pub(super) fn redeem(&self, name: &str, token: &str) -> Option<PendingStream> {
        let mut tokens = self.tokens.lock();
        let pending = tokens.redeem(token, Instant::now());
        let pending = pending.filter(|pending| pending.name() == name);
        self.metrics.token(if pending.is_some() { "used" } else { "refused" });
        pending
    }

    fn issue(&self, pending: PendingStream) -> Result<String, Failure> {
        let name = pending.name();
        let mut tokens = self.tokens.lock();
        let issued = tokens.issue(pending, Instant::now(), rand::random);
        self.metrics.token(if issued.is_some() { "issued" } else { "full" });
        let token = issued.ok_or_else(|| {
            let text = format!(
                "{MOST_PENDING} streams were requested and not opened; wait a minute and try again"
            );
            Failure::new(Kind::ResourceExhausted, text)
        })?;
        Ok(format!("http://{}/cri/{name}/{token}", reachable(self.address)))
    }

    /// Full id of the container `id`. Fails if the container does not run.
    async fn running(&self, id: &str) -> Result<String, Failure> {
        let now = self.store.inspected(id).await?;
        Ok(self.store.running(&now, id).await?.id.to_string())
    }
}

impl PendingStream {
    pub(super) fn about(&self) -> String {
        match self {
            Self::Exec(spec) => format!("container {}", spec.container),
            Self::Attach(spec) => format!("container {}", spec.container),
            Self::Forward(spec) => format!("sandbox {}", spec.sandbox),
        }
    }

    /// The segment of the URL's path that names the kind of request.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::Forward(_) => "portforward",
        }
    }

    pub(super) const fn purpose(&self) -> Purpose {
        match self {
            Self::Exec(_) | Self::Attach(_) => Purpose::Command,
            Self::Forward(_) => Purpose::Forward,
        }
    }
}

/// The address at which clients on this host reach the server: loopback, if it listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(host, address.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn clients_are_sent_to_an_address_that_is_one() {
        let rows = [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ];
        for (bound, address) in rows {
            assert_eq!(reachable(bound.parse().unwrap()).to_string(), address);
        }
    }
}
