//! Failures on demand, per end point.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How a call goes wrong, or goes at all.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// This status with Docker's error body.
    Status(u16, String),
    /// This status with this body, whatever the end point.
    Answer(u16, Value),
    /// This status with this text, which need be no JSON.
    Text(u16, String),
    /// Closes the connection instead of answering; nothing happens in the world.
    Reset,
    /// Does what was asked, then closes the connection instead of answering.
    LostAnswer,
    /// Answers with bytes that are no HTTP.
    Garbage,
    /// Promises a body and closes after half of it.
    CutBody,
    /// Whole HTTP around half the JSON.
    CutJson,
    /// Never answers.
    StalledHeaders,
    /// Half the body, then silence.
    StalledBody,
    /// Does and answers what was asked, so much later.
    Late(Duration),
    /// Does and answers what was asked, once the test cancels the token.
    Held(CancellationToken),
    /// Does what was asked at once, and answers so much later.
    LateAnswer(Duration),
    /// Does what was asked at once, and answers once the test cancels the token.
    HeldAnswer(CancellationToken),
    /// Does what was asked so much later, though whoever asked may have hung up.
    LateUnasked(Duration),
    /// Answers, then closes the connection without having said so.
    CloseAfter,
    /// 200 and these chunks, each flushed by itself.
    Stream(Vec<Vec<u8>>),
    /// 200 and these chunks, then silence.
    StreamThenStall(Vec<Vec<u8>>),
    /// 200 and so many bytes of `x` between two texts.
    Huge(&'static str, u64, String),
}

/// A fault and when it strikes.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pattern: String,
    fault: Fault,
    skip: usize,
    left: usize,
}

impl Rule {
    /// The fault at every matching call from now on.
    pub(crate) fn new(pattern: &str, fault: Fault) -> Self {
        Self { pattern: pattern.to_owned(), fault, skip: 0, left: usize::MAX }
    }

    /// Only so many times.
    pub(crate) fn times(mut self, count: usize) -> Self {
        self.left = count;
        self
    }

    /// Only after so many matching calls have passed unharmed.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// The fault for this call, if the rule strikes now.
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

/// Whether the text is as the pattern says; `*` stands for one or more characters.
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
