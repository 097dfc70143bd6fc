//! What collectors read of our meters.

use std::time::Duration;

use super::{By, Counter, Gauge, Timings};
use crate::telemetry::registry::{Figure, Form, Registry};

#[test]
fn a_counter_is_shown_in_both_forms() {
    let counter = Counter::default();
    let mut registry = Registry::default();
    registry.show("dockbridge_things_total", "Things that happened", &counter);
    counter.one();
    counter.clone().add(2);
    assert_eq!(
        registry.text(Form::OpenMetrics),
        "# HELP dockbridge_things Things that happened\n# TYPE dockbridge_things counter\n\
         dockbridge_things_total 3\n# EOF\n"
    );
    assert_eq!(
        registry.text(Form::Plain),
        "# HELP dockbridge_things_total Things that happened\n\
         # TYPE dockbridge_things_total counter\ndockbridge_things_total 3\n"
    );
    assert_eq!(counter.count(), 3);
}

#[test]
fn labelled_meters_are_told_apart() {
    let calls: By<Counter, 2> = By::default();
    let mut registry = Registry::default();
    registry.show_by("dockbridge_calls_total", &["call", "result"], "Calls", &calls);
    assert!(!registry.text(Form::Plain).contains("\ndockbridge_calls_total{"));
    calls.of(["start", "ok"]).one();
    calls.of(["start", "error"]).one();
    calls.of(["start", "ok"]).one();
    let text = registry.text(Form::Plain);
    assert!(text.contains("dockbridge_calls_total{call=\"start\",result=\"ok\"} 2\n"), "{text}");
    assert!(text.contains("dockbridge_calls_total{call=\"start\",result=\"error\"} 1\n"));
    let [described] = registry.descriptions() else { panic!("one metric") };
    assert_eq!((described.sort, described.labels), ("counter", &["call", "result"][..]));
}

#[test]
fn times_are_counted_in_seconds() {
    let timings: By<Timings, 1> = By::default();
    let mut registry = Registry::default();
    registry.show_by("dockbridge_call_seconds", &["call"], "Time", &timings);
    timings.of(["list"]).took(Duration::from_millis(2));
    timings.of(["list"]).took(Duration::from_secs(500));
    let text = registry.text(Form::OpenMetrics);
    assert!(text.contains("# TYPE dockbridge_call_seconds histogram\n"), "{text}");
    for (bound, count) in [("0.001", 0), ("0.0025", 1), ("120.0", 1), ("+Inf", 2)] {
        let line = format!("call_seconds_bucket{{le=\"{bound}\",call=\"list\"}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(text.contains("dockbridge_call_seconds_count{call=\"list\"} 2\n"));
}

#[test]
fn what_is_held_is_counted() {
    let gauge = Gauge::default();
    let held = gauge.one();
    let more = gauge.one();
    assert_eq!(gauge.value(), 2);
    drop(held);
    assert_eq!(gauge.value(), 1);
    drop(more);
    gauge.set(7);
    assert_eq!(gauge.value(), 7);
}

#[test]
fn figures_are_looked_up_when_asked() {
    let mut registry = Registry::default();
    registry.look("dockbridge_cpu_seconds_total", &[], "Processor time", || Figure::only(1.5));
    registry.look("dockbridge_build_info", &["engine"], "What runs", || {
        vec![Figure::of(["a \"b\"\nc"], 1.0)]
    });
    let text = registry.text(Form::Plain);
    assert!(text.contains("# TYPE dockbridge_cpu_seconds_total counter\n"), "{text}");
    assert!(text.contains("dockbridge_cpu_seconds_total 1.5\n"), "{text}");
    assert!(text.contains("dockbridge_build_info{engine=\"a \\\"b\\\"\\nc\"} 1.0\n"), "{text}");
}

#[test]
fn what_is_dropped_before_its_end_is_timed_too() {
    let calls: By<Timings, 2> = By::default();
    let mut registry = Registry::default();
    registry.show_by("dockbridge_call_seconds", &["call", "result"], "Time", &calls);
    let count = |outcome: &str| {
        let series =
            format!("dockbridge_call_seconds_count{{call=\"list\",result=\"{outcome}\"}} ");
        let text = registry.text(Form::Plain);
        text.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
    };
    let (first, second) = (calls.begin(["list", "cancelled"]), calls.begin(["list", "cancelled"]));
    assert_eq!((count("ok"), count("cancelled")), (None, None));
    first.ended("ok");
    assert_eq!((count("ok").as_deref(), count("cancelled")), (Some("1"), None));
    drop(second);
    assert_eq!((count("ok").as_deref(), count("cancelled").as_deref()), (Some("1"), Some("1")));
}
