//! The input of `run` in addition to the settings: how the process was started, and deadlines.

use std::time::Duration;

use tokio::signal::unix::Signal;

use crate::{
    config::{raw::RawValue, source::ConfigSource},
    engine::{client::Timeouts, lock::EngineLocks},
    host::inherited_socket::InheritedSocket,
    rpc::server::ClientTimeouts,
    store::settings::StoreSettings,
    telemetry::{log::LogControl, systemd::Systemd, trace::SpanRecorder},
};

/// How the process was started.
#[derive(Default)]
pub struct Environment {
    pub log: LogControl,
    pub source: ConfigSource,
    /// The settings as they were written, for reloads.
    pub values: Vec<RawValue>,
    pub hangups: Option<Signal>,
    /// Gets notifications: ready, alive, stopping.
    pub systemd: Systemd,
    /// Records spans, if a trace collector is set.
    pub spans: SpanRecorder,
    /// Locks that prevent a second server for one engine.
    pub locks: EngineLocks,
    pub inherited: Vec<InheritedSocket>,
    /// Capabilities that this process needs but does not have.
    pub missing: Vec<&'static str>,
}

/// Deadlines that are not settings.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Deadlines of calls to the engine. That of short calls is a setting.
    pub engine: Timeouts,
    /// Deadlines of the store's own calls to the engine.
    pub store: StoreSettings,
    /// The deadline of all CNI plugins of one ADD or DEL together. Plugins that work take less.
    pub plugins: Duration,
    /// How often to remove what remains of removed containers.
    pub sweep_interval: Duration,
    /// Deadlines for clients that send nothing.
    pub client_timeouts: ClientTimeouts,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            engine: Timeouts::default(),
            store: StoreSettings::default(),
            plugins: Duration::from_secs(220),
            sweep_interval: Duration::from_secs(30),
            client_timeouts: ClientTimeouts::default(),
        }
    }
}
