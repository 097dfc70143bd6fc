//! Tests of what dockbridge writes to the log, and in which format.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::{debug, info, level_filters::LevelFilter, warn};
use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt as _};

use super::{super::tests::share, Format, LogControl, lines};

#[test]
fn a_library_that_sees_bodies_cannot_be_turned_up() {
    let text = written(Format::Text, LevelFilter::TRACE, || {
        debug!(target: "hyper_util::client", "body with a password");
        debug!(target: "bollard::docker", "body with a password");
        debug!(target: "h2::codec", "body with a password");
        warn!(target: "hyper::proto", "connection broke");
        debug!(target: "dockbridge::engine", "asked");
    });
    assert!(!text.contains("password"), "{text}");
    assert!(text.contains("connection broke") && text.contains("asked"), "{text}");
}

#[test]
fn a_level_above_warn_holds_for_the_libraries_too() {
    let text =
        written(Format::Text, LevelFilter::ERROR, || warn!(target: "h2::codec", "odd frame"));
    assert_eq!(text, "");
}

#[test]
fn a_json_line_has_its_fields_at_the_top() {
    let text = written(Format::Json, LevelFilter::INFO, || info!(sandbox = "abc", "pod is up"));
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["sandbox"], "abc");
    assert_eq!(line["message"], "pod is up");
    assert_eq!(line["level"], "INFO");
}

#[test]
fn text_without_a_terminal_has_no_colours() {
    let text = written(Format::Text, LevelFilter::INFO, || info!("pod is up"));
    assert!(text.contains("pod is up") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_level_can_be_changed_while_lines_are_written() {
    let control = LogControl::default();
    let text = controlled((Format::Text, &control), || {
        for (level, line) in [
            (LevelFilter::INFO, "quiet"),
            (LevelFilter::TRACE, "loud"),
            (LevelFilter::ERROR, "quiet again"),
        ] {
            control.set_level(level);
            // Each round of the loop has the same call sites, so `set_level` must reset what tracing has
            // cached for them.
            debug!(line);
            debug!(target: "hyper::proto", line, "body with a password");
        }
    });
    assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
    assert!(!text.contains("password"), "{text}");
}

fn written(format: Format, level: LevelFilter, speak: impl FnOnce()) -> String {
    controlled((format, &LogControl::new(level)), speak)
}

fn controlled(log: (Format, &LogControl), speak: impl FnOnce()) -> String {
    share();
    let sink = Sink::default();
    let lines = lines(log, false, sink.clone());
    let subscriber = tracing_subscriber::registry().with(lines);
    tracing::subscriber::with_default(subscriber, speak);
    String::from_utf8(sink.0.lock().clone()).unwrap()
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Sink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
