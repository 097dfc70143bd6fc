//! Metrics of NRI plugins: connections, and the number, results and duration of calls.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::telemetry::{
    metric::{Counter, Family, Gauge},
    registry::{RegisterMetrics, Registry, Sample, counted},
};

/// The metrics of NRI. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct NriMetrics {
    calls: Arc<Mutex<BTreeMap<(String, &'static str), Calls>>>,
    pub(super) connected: Gauge,
    disconnects: Family<Counter, 1>,
}

/// The counts for one method of one plugin.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    ok: u32,
    failed: u32,
    took: Duration,
}

impl NriMetrics {
    pub(super) fn called(&self, plugin: &str, call: &'static str, took: Duration, ok: bool) {
        let mut calls = self.calls.lock();
        let is_known = calls.keys().any(|(known, _)| known == plugin);
        let has_room = is_known || calls.len() < MOST_ROWS;
        let name = if has_room { plugin } else { OTHERS };
        let row = calls.entry((name.to_owned(), call)).or_default();
        row.took += took;
        match ok {
            true => row.ok = row.ok.saturating_add(1),
            false => row.failed = row.failed.saturating_add(1),
        }
    }

    pub(super) fn disconnected(&self, reason: &'static str) {
        self.disconnects.with([reason]).inc();
    }
}

impl RegisterMetrics for NriMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "dockbridge_nri_plugins",
            "NRI plugins that are connected and synchronised",
            &self.connected,
        );
        registry.register_family(
            "dockbridge_nri_plugin_disconnects_total",
            &["reason"],
            "Ended connections of NRI plugins, or of programs that have not registered, by reason",
            &self.disconnects,
        );
        let calls = self.clone();
        registry.register_fn(
            "dockbridge_nri_calls_total",
            &["plugin", "call", "result"],
            "Calls to NRI plugins",
            move || {
                let rows = calls.calls.lock().clone();
                let of = |((plugin, call), row): (&(String, &'static str), &Calls)| {
                    let sample = |result, count: u32| {
                        let value = counted(usize::try_from(count).unwrap_or(usize::MAX));
                        Sample::labelled([plugin, call, result], value)
                    };
                    [sample("ok", row.ok), sample("error", row.failed)]
                };
                rows.iter().flat_map(of).collect()
            },
        );
        let calls = self.clone();
        registry.register_fn(
            "dockbridge_nri_call_seconds_total",
            &["plugin", "call"],
            "Total duration of calls to NRI plugins",
            move || {
                let rows = calls.calls.lock().clone();
                let of = |((plugin, call), row): (&(String, &'static str), &Calls)| {
                    Sample::labelled([plugin, call], row.took.as_secs_f64())
                };
                rows.iter().map(of).collect()
            },
        );
    }
}

/// Maximum number of rows; further plugins are `others`. A node needs fewer, but a plugin may keep changing its name.
const MOST_ROWS: usize = 512;
const OTHERS: &str = "others";
