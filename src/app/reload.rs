//! Reads the settings again while dockbridge runs. Applies either all changed settings that need no restart, or none.
//!
//! One task handles SIGHUP and the admin server's requests to reload or compare settings, so reloads never overlap.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::{signal::unix::Signal, sync::mpsc, time::timeout};
use tracing::{info, warn};

use super::span_export::SpanExport;
use crate::{
    admin::context::ReloadRequest,
    concurrency::blocking::blocking,
    config::{
        diff::{Difference, differences, names, reloaded},
        key::Key,
        live::LiveSettings,
        raw::RawValue,
        resolve::Resolved,
        source::{ConfigSource, Variables},
    },
    error::chain,
    telemetry::{
        log::LogControl,
        metric::{Counter, Family},
        registry::{RegisterMetrics, Registry},
    },
};

/// Counts reloads by their result. All clones of `ReloadMetrics` share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct ReloadMetrics(Family<Counter, 1>);

impl RegisterMetrics for ReloadMetrics {
    fn register(&self, registry: &mut Registry) {
        // Creates the counters of both results, so that the metrics show 0 before the first reload.
        for result in [APPLIED, REFUSED] {
            self.0.with([result]);
        }
        registry.register_family(
            "dockbridge_config_reloads_total",
            &["result"],
            "Reloads of the settings; a refused reload changed no setting",
            &self.0,
        );
    }
}

pub(super) struct Reloader {
    source: ConfigSource,
    running: Vec<RawValue>,
    live: LiveSettings,
    log: LogControl,
    spans: SpanExport,
    pub(super) metrics: ReloadMetrics,
}

impl Reloader {
    /// A reloader for settings from `source`. `running` are the current settings. A reload changes `live`,
    /// `log` and `spans`.
    pub(super) fn new(
        (source, running): (ConfigSource, Vec<RawValue>),
        (live, log): (LiveSettings, LogControl),
        spans: SpanExport,
    ) -> Self {
        let metrics = ReloadMetrics::default();
        Self { source, running, live, log, spans, metrics }
    }

    pub(super) async fn run(
        mut self,
        mut hangups: Option<Signal>,
        mut requests: mpsc::Receiver<ReloadRequest>,
    ) -> Infallible {
        loop {
            tokio::select! {
                () = received(&mut hangups) => drop(self.reload(None).await),
                Some(request) = requests.recv() => {
                    let ReloadRequest { apply, variables, answer } = request;
                    let text = match apply {
                        true => self.reload(variables).await,
                        false => self.preview(variables).await,
                    };
                    // Sending fails if the admin client no longer waits.
                    let _ = answer.send(text);
                }
            }
        }
    }

    async fn preview(&self, variables: Option<Variables>) -> Result<String, String> {
        let (_, new) = self.read(variables).await?;
        let lines = differences(&self.running, &new).into_iter().map(|one| format!("{one}\n"));
        let lines: String = lines.collect();
        Ok(if lines.is_empty() { "nothing would change\n".to_owned() } else { lines })
    }

    async fn reload(&mut self, variables: Option<Variables>) -> Result<String, String> {
        let applied = self.apply(variables).await;
        match &applied {
            Ok((changed, needs_restart)) => {
                info!(changed, needs_restart, "configuration reloaded");
                self.metrics.0.with([APPLIED]).inc();
            }
            Err(error) => {
                warn!(error, "cannot reload the configuration; no setting was changed");
                self.metrics.0.with([REFUSED]).inc();
            }
        }
        let (changed, needs_restart) = applied?;
        let mut text = match changed.as_str() {
            "" => "nothing changed\n".to_owned(),
            names => format!("changed: {names}\n"),
        };
        if !needs_restart.is_empty() {
            text += &format!("settings waiting for a restart of dockbridge: {needs_restart}\n");
        }
        Ok(text)
    }

    /// Returns the names of the settings that this call has changed, and of those whose new values need a restart.
    async fn apply(&mut self, variables: Option<Variables>) -> Result<(String, String), String> {
        let (source, new) = self.read(variables).await?;
        let (waiting, changed): (Vec<Difference>, Vec<Difference>) =
            differences(&self.running, &new).into_iter().partition(Difference::needs_restart);
        let next = reloaded(&self.running, &new).map_err(|error| error.to_string())?;
        let settings = &next.settings;
        if changed.iter().any(|one| one.key == Key::TracingEndpoint) {
            self.spans.switch(&settings.tracing);
        }
        self.spans.sample(settings.tracing.per_million);
        self.log.set_level(settings.log.level);
        self.live.replace(next.settings);
        (self.source, self.running) = (source, next.values);
        Ok((names(&changed), names(&waiting)))
    }

    async fn read(&self, variables: Option<Variables>) -> Result<(ConfigSource, Resolved), String> {
        let mut source = self.source.clone();
        source.variables = variables.unwrap_or(source.variables);
        let reading = blocking(move || (source.resolve(), source));
        let late = || format!("reading the configuration took longer than {READ_TIMEOUT:?}");
        let (resolved, source) = timeout(READ_TIMEOUT, reading).await.map_err(|_| late())?;
        Ok((source, resolved.map_err(|error| chain(&error))?))
    }
}

async fn received(hangups: &mut Option<Signal>) {
    let Some(signal) = hangups else { return pending().await };
    if signal.recv().await.is_none() {
        pending::<()>().await;
    }
}

/// How long reading the settings may take. If a file system hangs, later reloads must not wait forever.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const APPLIED: &str = "applied";
const REFUSED: &str = "refused";
