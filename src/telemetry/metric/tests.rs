//! Tests of the text in which collectors read dockbridge's metrics.

use std::time::Duration;

use super::{Counter, Family, Gauge, GaugeGuard, Histogram};
use crate::telemetry::registry::{Registry, Sample};

#[test]
fn a_counter_is_shown() {
    let counter: Counter = Counter::default();
    let mut registry = Registry::default();
    registry.register("dockbridge_things_total", "Things that happened", &counter);
    counter.inc();
    counter.clone().inc_by(2);
    assert_eq!(
        registry.text(),
        "# HELP dockbridge_things Things that happened\n# TYPE dockbridge_things counter\n\
         dockbridge_things_total 3\n# EOF\n"
    );
    assert_eq!(counter.get(), 3);
}

#[test]
fn labelled_metrics_are_counted_separately() {
    let calls: Family<Counter, 2> = Family::default();
    let mut registry = Registry::default();
    registry.register_family("dockbridge_calls_total", &["call", "result"], "Calls", &calls);
    assert!(!registry.text().contains("\ndockbridge_calls_total{"));
    calls.with(["start", "ok"]).inc();
    calls.with(["start", "error"]).inc();
    calls.with(["start", "ok"]).inc();
    let text = registry.text();
    assert!(text.contains("dockbridge_calls_total{call=\"start\",result=\"ok\"} 2\n"), "{text}");
    assert!(text.contains("dockbridge_calls_total{call=\"start\",result=\"error\"} 1\n"));
    let [described] = registry.descriptions.as_slice() else { panic!("one metric") };
    assert_eq!((described.kind.as_str(), described.labels), ("counter", &["call", "result"][..]));
}

#[test]
fn times_are_counted_in_seconds() {
    let timings: Family<Histogram, 1> = Family::default();
    let mut registry = Registry::default();
    registry.register_family("dockbridge_call_seconds", &["call"], "Time", &timings);
    timings.with(["list"]).observe(Duration::from_millis(2));
    timings.with(["list"]).observe(Duration::from_secs(500));
    let text = registry.text();
    assert!(text.contains("# TYPE dockbridge_call_seconds histogram\n"), "{text}");
    for (bound, count) in [("0.001", 0), ("0.0025", 1), ("120.0", 1), ("+Inf", 2)] {
        let line = format!("call_seconds_bucket{{le=\"{bound}\",call=\"list\"}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(text.contains("dockbridge_call_seconds_count{call=\"list\"} 2\n"));
}

#[test]
fn what_is_held_is_counted() {
    let gauge: Gauge = Gauge::default();
    let held = GaugeGuard::of(gauge.clone());
    let more = GaugeGuard::of(gauge.clone());
    assert_eq!(gauge.get(), 2);
    drop(held);
    assert_eq!(gauge.get(), 1);
    drop(more);
    gauge.set(7);
    assert_eq!(gauge.get(), 7);
}

#[test]
fn figures_are_read_on_request() {
    let mut registry = Registry::default();
    registry
        .register_fn("dockbridge_cpu_seconds_total", &[], "Processor time", || Sample::single(1.5));
    registry.register_fn("dockbridge_build_info", &["engine"], "What runs", || {
        vec![Sample::labelled(["a \"b\"\nc"], 1.0)]
    });
    let text = registry.text();
    assert!(text.contains("# TYPE dockbridge_cpu_seconds counter\n"), "{text}");
    assert!(text.contains("dockbridge_cpu_seconds_total 1.5\n"), "{text}");
    assert!(text.contains("dockbridge_build_info{engine=\"a \\\"b\\\"\\nc\"} 1.0\n"), "{text}");
}

#[test]
fn what_is_dropped_before_its_end_is_timed_too() {
    let calls: Family<Histogram, 2> = Family::default();
    let mut registry = Registry::default();
    registry.register_family("dockbridge_call_seconds", &["call", "result"], "Time", &calls);
    let count = |outcome: &str| {
        let series =
            format!("dockbridge_call_seconds_count{{call=\"list\",result=\"{outcome}\"}} ");
        let text = registry.text();
        text.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
    };
    let (first, second) =
        (calls.start_timer(["list", "cancelled"]), calls.start_timer(["list", "cancelled"]));
    assert_eq!((count("ok"), count("cancelled")), (None, None));
    first.finish("ok");
    assert_eq!((count("ok").as_deref(), count("cancelled")), (Some("1"), None));
    drop(second);
    assert_eq!((count("ok").as_deref(), count("cancelled").as_deref()), (Some("1"), Some("1")));
}
