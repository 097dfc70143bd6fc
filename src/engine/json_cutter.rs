//! Splits the bytes of an answer into JSON values as they arrive, and limits the size of each.
//!
//! A single object must not make an answer unreadable, however large its labels are. A text, list or map
//! above its limit is replaced by `false`. Readers of lists and labels read this as missing, and all others
//! fail, so no important value is mistaken for empty.

use bytes::{Buf, Bytes};
use serde::de::DeserializeOwned;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A sequence of objects. A line break ends an incomplete object, because one invalid message must not
    /// end a stream of events.
    Messages,
    Document,
    /// One list whose entries are the values.
    List,
}

/// Splits one answer.
#[derive(Debug)]
pub(super) struct JsonCutter {
    form: Form,
    limits: Limits,
    /// The current value, without parts that were too large.
    kept: Vec<u8>,
    /// Where in `kept` each open object or list begins, outermost first.
    open: Vec<usize>,
    /// Where in `kept` the open text begins.
    text: Option<usize>,
    is_escaped: bool,
    /// The open text is too large.
    drops_text: bool,
    /// How many objects and lists were open when the innermost of them became too large.
    drops_from: Option<usize>,
    has_dropped: bool,
    /// This is not JSON. Everything up to the next line break is ignored.
    is_noise: bool,
    list: ListState,
}

#[derive(Debug)]
pub(super) struct Cut<T> {
    /// The value, or the reason why it cannot be read.
    pub(super) value: Result<T, String>,
    /// A part of it was too large and is missing.
    pub(super) has_dropped: bool,
}

/// Largest sizes in bytes of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) value: usize,
    /// An object or list inside of it.
    pub(super) part: usize,
    pub(super) text: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    Expected,
    Open,
    Closed,
}

/// The result of a step.
enum Step {
    More,
    Complete,
    Broken,
}

impl JsonCutter {
    pub(super) const fn new(form: Form) -> Self {
        Self::with_limits(form, LIMITS)
    }

    pub(super) const fn with_limits(form: Form, limits: Limits) -> Self {
        Self {
            form,
            limits,
            kept: Vec::new(),
            open: Vec::new(),
            text: None,
            is_escaped: false,
            drops_text: false,
            drops_from: None,
            has_dropped: false,
            is_noise: false,
            list: ListState::Expected,
        }
    }

    /// Consumes `input` up to the end of the next value. None if more bytes are needed.
    pub(super) fn next<T: DeserializeOwned>(&mut self, input: &mut Bytes) -> Option<Cut<T>> {
        while let Some(first) = input.first().copied() {
            let (taken, step) = self.step(first, input);
            input.advance(taken);
            match step {
                Step::More => {}
                Step::Complete => return Some(self.value()),
                Step::Broken => {
                    self.reset();
                    return Some(Cut { value: Err(BROKEN.to_owned()), has_dropped: false });
                }
            }
        }
        None
    }

    /// Whether the list was read to its end.
    pub(super) fn is_whole_list(&self) -> bool {
        self.list == ListState::Closed && self.open.is_empty() && self.text.is_none()
    }

    fn value<T: DeserializeOwned>(&mut self) -> Cut<T> {
        let value = serde_json::from_slice(&self.kept).map_err(|reason| reason.to_string());
        let has_dropped = self.has_dropped;
        self.reset();
        Cut { value, has_dropped }
    }

    /// Frees the memory, because the next value is probably small.
    fn reset(&mut self) {
        *self = Self { list: self.list, ..Self::with_limits(self.form, self.limits) };
    }

    /// Handles the first byte, or all bytes that belong together. Returns their number.
    fn step(&mut self, first: u8, input: &[u8]) -> (usize, Step) {
        if self.form == Form::Messages && first == b'\n' {
            let is_partial = self.is_noise || !self.open.is_empty();
            return (1, if is_partial { Step::Broken } else { Step::More });
        }
        if self.is_noise {
            let has_lines = self.form == Form::Messages;
            return (length_before(input, |byte| has_lines && byte == b'\n'), Step::More);
        }
        if let Some(start) = self.text {
            return (self.continue_text(start, first, input), Step::More);
        }
        match first {
            b'"' if self.is_inside() => {
                self.text = Some(self.kept.len());
                self.keep(b"\"");
            }
            b'{' | b'[' if self.is_inside() || first == b'{' && self.form != Form::List => {
                self.open.push(self.kept.len());
                self.keep(&[first]);
            }
            b'}' | b']' if !self.open.is_empty() => return (1, self.close(first)),
            _ if self.open.is_empty() => self.outside(first),
            _ => {
                self.keep(&[first]);
                if first == b',' {
                    self.check_innermost();
                }
            }
        }
        (1, Step::More)
    }

    /// Whether a value, or an entry of the list, may begin or continue here.
    fn is_inside(&self) -> bool {
        !self.open.is_empty() || self.list == ListState::Open
    }

    /// A byte between values. Entries that are neither objects nor lists are ignored.
    fn outside(&mut self, byte: u8) {
        match (self.form, byte) {
            (Form::List, b'[') if self.list == ListState::Expected => self.list = ListState::Open,
            (Form::List, b']') if self.list == ListState::Open => self.list = ListState::Closed,
            (Form::List, _) if self.list == ListState::Open => {}
            _ => self.is_noise = !byte.is_ascii_whitespace(),
        }
    }

    /// Handles the bytes of a text up to its end or an escape sequence.
    fn continue_text(&mut self, start: usize, first: u8, input: &[u8]) -> usize {
        let is_plain = self.is_escaped || !matches!(first, b'"' | b'\\');
        let length = if self.is_escaped || !is_plain {
            1
        } else {
            let is_message = self.form == Form::Messages;
            length_before(input, |byte| {
                matches!(byte, b'"' | b'\\') || (is_message && byte == b'\n')
            })
        };
        self.keep(input.get(..length).unwrap_or_default());
        self.is_escaped = !is_plain && first == b'\\';
        if !is_plain && first == b'"' {
            self.text = None;
            self.drops_text = false;
            if self.open.is_empty() {
                self.kept.clear();
            }
        } else if self.keeps() && self.kept.len().saturating_sub(start) > self.limits.text {
            let in_its_place: &[u8] = if self.is_key(start) { b"\"\"" } else { b"false" };
            self.replace(start, in_its_place);
            self.drops_text = true;
        }
        length
    }

    /// Whether the text that begins at `start` is a key of an object.
    fn is_key(&self, start: usize) -> bool {
        let innermost = self.open.last().and_then(|at| self.kept.get(*at));
        let before = self.kept.get(..start).unwrap_or_default().trim_ascii_end().last();
        innermost == Some(&b'{') && matches!(before, Some(b'{' | b','))
    }

    fn close(&mut self, bracket: u8) -> Step {
        if self.drops_from == Some(self.open.len()) {
            self.drops_from = None;
        } else {
            self.keep(&[bracket]);
            self.check_innermost();
            // The part that is too large ends here.
            self.drops_from = self.drops_from.filter(|depth| *depth != self.open.len());
        }
        self.open.pop();
        if self.open.is_empty() {
            return Step::Complete;
        }
        self.check_innermost();
        Step::More
    }

    /// Drops the innermost open object or list if it is too large.
    fn check_innermost(&mut self) {
        let depth = self.open.len();
        let limit = if depth == 1 { self.limits.value } else { self.limits.part };
        if let Some(start) = self.open.last().copied()
            && self.keeps()
            && self.kept.len().saturating_sub(start) > limit
        {
            self.replace(start, b"false");
            self.drops_from = Some(depth);
        }
    }

    fn replace(&mut self, start: usize, by: &[u8]) {
        self.kept.truncate(start);
        self.kept.extend_from_slice(by);
        self.has_dropped = true;
    }

    const fn keeps(&self) -> bool {
        self.drops_from.is_none() && !self.drops_text
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.keeps() {
            self.kept.extend_from_slice(bytes);
        }
    }
}

/// How many bytes precede the first one for which `is_end` holds.
fn length_before(input: &[u8], is_end: impl Fn(u8) -> bool) -> usize {
    input.iter().position(|byte| is_end(*byte)).unwrap_or(input.len())
}

const BROKEN: &str = "it is not JSON";
/// A container that dockbridge creates stays below all of these, because its request has at most 48 MiB of
/// JSON ([`super::request`]), and its image adds at most 4 MiB of labels. Variables of its image are not
/// limited.
const LIMITS: Limits = Limits { value: 256 << 20, part: 64 << 20, text: 32 << 20 };

#[cfg(test)]
mod tests;
