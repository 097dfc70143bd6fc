//! Failures on demand, for each endpoint.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How a call fails, or how it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// This status with Docker's error body.
    Status(u16, String),
    /// This status with this body, for any endpoint.
    Answer(u16, Value),
    /// This status with this text, which might not be JSON.
    Text(u16, String),
    /// Closes the connection instead of answering, without an effect.
    Reset,
    /// Executes the request, then closes the connection instead of answering.
    LostAnswer,
    /// Answers with bytes that are not HTTP.
    Garbage,
    /// Announces a body and closes after half of it.
    CutBody,
    /// Valid HTTP with half of the JSON.
    CutJson,
    /// Never answers.
    StalledHeaders,
    /// Half of the body, then nothing.
    StalledBody,
    /// Executes and answers the request after this time.
    Late(Duration),
    /// Executes and answers the request after the test has cancelled the token.
    Held(CancellationToken),
    /// Executes the request at once, and answers after this time.
    LateAnswer(Duration),
    /// Executes the request at once, and answers after the test has cancelled the token.
    HeldAnswer(CancellationToken),
    /// Executes the request after this time, even if the client has disconnected.
    LateUnasked(Duration),
    /// Answers, then closes the connection without announcing it.
    CloseAfter,
    /// 200 and these chunks, each flushed.
    Stream(Vec<Vec<u8>>),
    /// 200 and these chunks, then nothing.
    StreamThenStall(Vec<Vec<u8>>),
    /// 200 and this many bytes of `x` between two texts.
    Huge(&'static str, u64, String),
}

/// A fault and when it applies.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pattern: String,
    fault: Fault,
    skip: usize,
    left: usize,
}

impl Rule {
    /// The fault for every matching call from now on.
    pub(crate) fn new(pattern: &str, fault: Fault) -> Self {
        Self { pattern: pattern.to_owned(), fault, skip: 0, left: usize::MAX }
    }

    /// Only this many times.
    pub(crate) fn times(mut self, count: usize) -> Self {
        self.left = count;
        self
    }

    /// Only after this many matching calls.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// The fault for this call, if the rule applies now.
    pub(super) fn strike(&mut self, call: &str) -> Option<Fault> {
        if self.left == 0 || !matches(&self.pattern, call) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.left -= 1;
        Some(self.fault.clone())
    }
}

/// Whether the text matches the pattern; `*` stands for one or more characters.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (1..=tail.len())
                .filter(|at| tail.is_char_boundary(*at))
                .any(|at| matches(rest, &tail[at..]))
        }),
    }
}
