//! Failures of the fake dockerd that a test requests for an endpoint.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How an engine call fails, or how the fake dockerd answers it.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Answers with this HTTP status and Docker's error body.
    Status(u16, String),
    /// Answers with this HTTP status and this JSON body.
    Answer(u16, Value),
    /// Answers with this HTTP status and this text, which need not be JSON.
    Text(u16, String),
    /// Closes the connection instead of answering, and does not execute the request.
    Reset,
    /// Executes the request, then closes the connection instead of answering.
    LostAnswer,
    /// Answers with bytes that are not HTTP.
    Garbage,
    /// Announces the length of a body and closes the connection after half of the body.
    CutBody,
    /// Answers with a valid HTTP body that contains only half of the JSON.
    CutJson,
    /// The fake dockerd never answers the request.
    StalledHeaders,
    /// Sends half of the body, then nothing.
    StalledBody,
    /// Executes and answers the request only after this time.
    Late(Duration),
    /// Executes and answers the request after the test has cancelled the token.
    Held(CancellationToken),
    /// Executes the request at once, and answers after this time.
    LateAnswer(Duration),
    /// Executes the request at once, and answers after the test has cancelled the token.
    HeldAnswer(CancellationToken),
    /// Executes the request after this time, even if the client has disconnected, and does not answer.
    LateUnasked(Duration),
    /// Answers, then closes the connection, which the answer's headers do not announce.
    CloseAfter,
    /// Answers with status 200 and these chunks.
    Stream(Vec<Vec<u8>>),
    /// Answers with status 200 and these chunks, and then sends nothing.
    StreamThenStall(Vec<Vec<u8>>),
    /// Answers with status 200 and this many bytes of `x` between two texts.
    Huge(&'static str, u64, String),
}

/// A fault and the calls to which it applies.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pattern: String,
    fault: Fault,
    skip: usize,
    left: usize,
}

impl Rule {
    /// A rule that applies the fault to every call that matches the pattern.
    pub(crate) fn new(pattern: &str, fault: Fault) -> Self {
        Self { pattern: pattern.to_owned(), fault, skip: 0, left: usize::MAX }
    }

    /// The rule applies only this many times.
    pub(crate) fn times(mut self, count: usize) -> Self {
        self.left = count;
        self
    }

    /// The rule applies only after this many matching calls.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// The fault of the rule, if the rule applies to this call.
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

/// Whether the text matches the pattern, in which `*` stands for one or more characters.
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
