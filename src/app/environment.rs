//! The input of the server in addition to the settings. Only tests change the deadlines.

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

/// What the caller of [`run`](super::run) sets up or finds at the start of the process.
#[derive(Default)]
pub struct Environment {
    pub log: LogControl,
    pub source: ConfigSource,
    /// The settings as texts, before parsing. The first reload compares them with the new settings.
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
    /// Deadlines of calls to the engine. For short calls, the setting `runtime-request-timeout` applies instead.
    pub engine: Timeouts,
    /// Deadlines, intervals and maximum numbers of the store's own calls to the engine.
    pub store: StoreSettings,
    /// The deadline of all CNI plugins of one ADD or DEL together.
    pub plugins: Duration,
    /// The pause between two periodic cleanups, which repair what other programs have changed.
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
