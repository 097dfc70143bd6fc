//! The input of `run` other than the settings: how the process was started, and deadlines.

use std::time::Duration;

use tokio::signal::unix::Signal;

use crate::{
    config::{raw::RawValue, source::ConfigSource},
    engine::{client::Timeouts, lock::EngineLocks},
    host::{capability::Capability, inherited_socket::InheritedSocket},
    rpc::server::ClientTimeouts,
    store::settings::StoreSettings,
    telemetry::{log::LogControl, systemd::Systemd, trace::SpanRecorder},
};

/// What the process was started with.
#[derive(Default)]
pub struct Environment {
    pub log: LogControl,
    /// Where the settings come from, for reloads.
    pub source: ConfigSource,
    /// The settings as they were written, for reloads.
    pub values: Vec<RawValue>,
    pub hangups: Option<Signal>,
    /// Gets notifications: ready, alive, stopping.
    pub systemd: Systemd,
    /// Records spans, where a trace collector is set.
    pub spans: SpanRecorder,
    /// Locks against a second server on one engine.
    pub locks: EngineLocks,
    /// Listening sockets that systemd opened.
    pub inherited: Vec<InheritedSocket>,
    /// Capabilities that this process needs and lacks.
    pub missing: Vec<Capability>,
}

/// Deadlines that no setting has.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Of calls to the engine; that of short calls is a setting.
    pub engine: Timeouts,
    /// Of the store's own calls to the engine.
    pub store: StoreSettings,
    /// Of all CNI plugins of one ADD or DEL together.
    pub plugins: Duration,
    /// How often leftovers of containers that are gone are removed.
    pub sweep_every: Duration,
    /// Of clients that send nothing.
    pub client_timeouts: ClientTimeouts,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            engine: Timeouts::default(),
            store: StoreSettings::default(),
            plugins: PLUGIN_DEADLINE,
            sweep_every: SWEEP_EVERY,
            client_timeouts: ClientTimeouts::default(),
        }
    }
}

/// How often leftovers of containers that are gone are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How long all CNI plugins of one pod may take together; longer than any that works.
const PLUGIN_DEADLINE: Duration = Duration::from_secs(220);
