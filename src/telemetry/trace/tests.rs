//! Tests of what dockbridge records of spans, which parents spans have, and which spans it does not record.

use proptest::prelude::*;
use tokio::sync::mpsc::error::TryRecvError;
use tracing::{Span, debug_span, field, info, info_span};
use tracing_subscriber::layer::SubscriberExt as _;

use super::{
    super::tests::share, FinishedSpan, QUEUE, SpanGuard, SpanQueue, SpanRecorder, TRACED,
    parent::Parent, set_parent,
};

#[test]
fn a_span_becomes_a_part_of_its_callers_trace_and_its_children_too() {
    let mut noted = traced(0, || {
        let rpc = info_span!("rpc", name = "RunPodSandbox", about = field::Empty);
        set_parent(&rpc, &header(1));
        rpc.in_scope(|| {
            Span::current().record("about", "default/web");
            info_span!(target: TRACED, "engine", call = %"create container x").in_scope(|| {});
            info!(secret = "hidden", "lines are not noted");
        });
        SpanGuard::new(&rpc).finish(Some(tonic::Code::NotFound));
    });
    let (engine, rpc) = (next(&mut noted), next(&mut noted));
    assert_eq!((engine.trace, rpc.trace), ([0xab; 16], [0xab; 16]));
    assert_eq!((rpc.parent, engine.parent), (Some([0xcd; 8]), Some(rpc.span)));
    assert_eq!((rpc.name.as_str(), rpc.kind), ("RunPodSandbox", "rpc"));
    assert_eq!((engine.name.as_str(), engine.kind), ("engine", "engine"));
    assert_eq!(rpc.attributes, [("about", "default/web".to_owned())]);
    assert_eq!(engine.attributes, [("call", "create container x".to_owned())]);
    assert_eq!((rpc.failure.as_deref(), engine.failure), (Some("NotFound"), None));
    assert_eq!(noted.spans.try_recv().unwrap_err(), TryRecvError::Disconnected);
}

#[test]
fn the_filter_leaves_out_the_others() {
    for (per_million, sampled) in [(0, 0), (1_000_000, 100)] {
        let mut noted = traced(per_million, || {
            for _ in 0..100 {
                info_span!("rpc", name = "Version").in_scope(|| {});
            }
        });
        let count = std::iter::from_fn(|| noted.spans.try_recv().ok()).count();
        assert_eq!(count, sampled, "{per_million}");
    }
    let mut noted = traced(1_000_000, || {
        let rpc = info_span!("rpc", name = "Version");
        set_parent(&rpc, &header(0));
        rpc.in_scope(|| info_span!(target: TRACED, "engine").in_scope(|| {}));
        // dockbridge records neither spans of libraries nor its own spans of level debug.
        info_span!(target: "h2", "frame").in_scope(|| {});
        debug_span!("detail").in_scope(|| {});
    });
    assert!(noted.spans.try_recv().is_err(), "the caller keeps none of it");
}

#[test]
fn a_header_that_is_none_starts_a_trace_of_its_own() {
    let mut noted = traced(1_000_000, || {
        set_parent(&info_span!("rpc", name = "Version"), "00-zz-cd-01");
    });
    let rpc = next(&mut noted);
    assert_eq!(rpc.parent, None);
    assert_ne!(rpc.trace, [0; 16]);
}

#[test]
fn without_a_receiver_the_queue_is_short() {
    let noted = traced(1_000_000, || {
        for _ in 0..QUEUE + 7 {
            info_span!("rpc", name = "x".repeat(100_000)).in_scope(|| {});
        }
    });
    assert_eq!(noted.spans.len(), QUEUE);
    assert_eq!(noted.dropped.load(std::sync::atomic::Ordering::Relaxed), 7);
}

#[test]
fn values_are_cut() {
    let mut noted = traced(1_000_000, || {
        info_span!("rpc", name = "x", about = "ü".repeat(5000)).in_scope(|| {});
    });
    assert!(next(&mut noted).attributes[0].1.len() <= 260);
}

#[test]
fn a_kept_span_ends_when_finished() {
    let began = std::time::Instant::now();
    let mut noted = traced(1_000_000, || {
        let rpc = info_span!("rpc", name = "RunPodSandbox");
        SpanGuard::new(&rpc).finish(None::<()>);
        linger();
    });
    let rpc = next(&mut noted);
    assert_eq!(rpc.failure, None);
    assert!(rpc.took + LINGER <= began.elapsed());
}

#[test]
fn what_is_abandoned_ends_there_and_is_no_success() {
    let began = std::time::Instant::now();
    let mut noted = traced(1_000_000, || {
        let rpc = info_span!("rpc", name = "RunPodSandbox");
        drop(SpanGuard::new(&rpc));
        linger();
    });
    let rpc = next(&mut noted);
    assert_eq!(rpc.failure.as_deref(), Some("Cancelled"));
    assert!(rpc.took + LINGER <= began.elapsed());
}

#[test]
fn without_a_collector_nothing_happens() {
    let span = info_span!("rpc", name = "Version");
    set_parent(&span, &header(1));
    SpanGuard::new(&span).finish(Some("NotFound"));
    tracing::subscriber::with_default(tracing_subscriber::registry(), || {
        let span = info_span!("rpc", name = "Version");
        set_parent(&span, &header(1));
        SpanGuard::new(&span).finish(Some("NotFound"));
    });
}

#[test]
fn headers_are_read_as_the_rules_say() {
    let well = Parent { trace: [0xab; 16], span: [0xcd; 8], sampled: true };
    let (trace, span) = ("ab".repeat(16), "cd".repeat(8));
    assert_eq!(Parent::parse(&header(1)), Some(well));
    assert_eq!(Parent::parse(&header(2)), Some(Parent { sampled: false, ..well }));
    assert_eq!(Parent::parse(&format!("01-{trace}-{span}-01-more")), Some(well));
    for wrong in [
        String::new(),
        format!("ff-{trace}-{span}-01"),
        format!("00-{trace}-{span}-01-more"),
        format!("00-{trace}-{span}"),
        format!("00-{}-{span}-01", "00".repeat(16)),
        format!("00-{trace}-{}-01", "00".repeat(8)),
        format!("00-{}-{span}-01", "AB".repeat(16)),
        format!("00-{trace}c-{span}-01"),
        format!("0-{trace}-{span}-01"),
        format!("00-{trace}-{span}-é"),
    ] {
        assert_eq!(Parent::parse(&wrong), None, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn any_header_is_read_or_not(text in "[0-9a-fA-F-]{0,70}|\\PC*") {
        let _ = Parent::parse(&text);
    }

    #[test]
    fn any_parent_is_read_back(trace: [u8; 16], span: [u8; 8], flags: u8) {
        prop_assume!(trace != [0; 16] && span != [0; 8]);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let text = format!("00-{}-{}-{flags:02x}", hex(&trace), hex(&span));
        let sampled = flags % 2 == 1;
        prop_assert_eq!(Parent::parse(&text), Some(Parent { trace, span, sampled }));
    }
}

fn header(flags: u8) -> String {
    format!("00-{}-{}-{flags:02x}", "ab".repeat(16), "cd".repeat(8))
}

fn traced(per_million: u32, work: impl FnOnce()) -> SpanQueue {
    share();
    let spans = SpanRecorder::default();
    let noted = spans.start(per_million);
    let subscriber = tracing_subscriber::registry().with(spans.layer());
    tracing::subscriber::with_default(subscriber, work);
    noted
}

fn next(noted: &mut SpanQueue) -> FinishedSpan {
    noted.spans.try_recv().expect("a span has ended")
}

/// Waits a short time without giving up the thread.
fn linger() {
    let told = std::time::Instant::now();
    while told.elapsed() < LINGER {}
}

const LINGER: std::time::Duration = std::time::Duration::from_millis(50);
