//! What reaches the log, and in which form.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::{debug, info, info_span, level_filters::LevelFilter, warn};
use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt as _};

use super::{Format, LogControl, lines};

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
    let text = controlled(&control, || {
        for (level, line) in [
            (LevelFilter::INFO, "quiet"),
            (LevelFilter::TRACE, "loud"),
            (LevelFilter::ERROR, "quiet again"),
        ] {
            control.set_level(level);
            assert_eq!(control.level(), level);
            // The same place each time: what it remembers has to be forgotten.
            debug!(line);
            debug!(target: "hyper::proto", line, "body with a password");
        }
    });
    assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
    assert!(!text.contains("password"), "{text}");
}

/// Also in the middle of a call: no line is lost, and none has both forms.
#[test]
fn the_form_can_be_changed_while_lines_are_written() {
    let control = LogControl::default();
    let text = controlled(&control, || {
        info_span!("rpc", about = "p").in_scope(|| {
            for (format, line) in [
                (Format::Text, "first"),
                (Format::Json, "second"),
                (Format::Json, "third"),
                (Format::Text, "fourth"),
            ] {
                control.set(format, LevelFilter::INFO);
                info!(line);
            }
        });
        control.set(Format::Json, LevelFilter::INFO);
        info_span!("rpc", about = "q").in_scope(|| info!("fifth"));
    });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].contains("rpc{about=\"p\"}") && lines[0].contains("first"), "{text}");
    for (at, word) in [(1, "second"), (2, "third")] {
        let line: serde_json::Value = serde_json::from_str(lines[at]).unwrap();
        assert_eq!(line["line"], word);
    }
    assert!(!lines[3].starts_with('{') && lines[3].contains("fourth"), "{text}");
    let line: serde_json::Value = serde_json::from_str(lines[4]).unwrap();
    assert_eq!((&line["message"], &line["span"]["about"]), (&"fifth".into(), &"q".into()));
}

fn written(format: Format, level: LevelFilter, speak: impl FnOnce()) -> String {
    controlled(&LogControl::new(format, level), speak)
}

fn controlled(control: &LogControl, speak: impl FnOnce()) -> String {
    let sink = Sink::default();
    let lines = lines(control, false, sink.clone());
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
