//! The input of `run` in addition to the settings: how the process was started. Tests also pass deadlines.

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
    /// The settings as texts, before parsing. A reload parses these texts again and compares the result with
    /// the new settings.
    pub values: Vec<RawValue>,
    pub hangups: Option<Signal>,
    /// Sends systemd the notifications READY, STATUS, WATCHDOG and STOPPING.
    pub systemd: Systemd,
    /// Records trace spans, if a trace collector is set.
    pub spans: SpanRecorder,
    pub locks: EngineLocks,
    pub inherited: Vec<InheritedSocket>,
    /// Linux capabilities that this process needs but does not have.
    pub missing: Vec<&'static str>,
}

/// Deadlines and intervals that are not settings.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Deadlines of calls to the engine. The setting `runtime-request-timeout` replaces that of short calls.
    pub engine: Timeouts,
    /// Deadlines, intervals and maximum numbers of the store's own calls to the engine.
    pub store: StoreSettings,
    /// The deadline of all CNI plugins of one ADD or DEL together.
    pub plugins: Duration,
    /// How often to clean up after other programs, for example to remove dockbridge's files of removed containers.
    pub sweep_interval: Duration,
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
