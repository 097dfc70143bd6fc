//! The header that makes the caller's span the parent of ours: `traceparent` of W3C's Trace Context, as
//! kubelet sends it when its tracing is on.

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace of the caller's span and of ours.
    pub trace: [u8; 16],
    pub span: [u8; 8],
    /// Whether the caller's span is kept. Our spans are kept only with it.
    pub sampled: bool,
}

impl Parent {
    /// Parses `version-trace-span-flags`. `None` for anything else, which must be ignored by the rules.
    /// Later versions may append more fields; version `ff` is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version] = bytes(parts.next()?)?;
        let (trace, span) = (bytes(parts.next()?)?, bytes(parts.next()?)?);
        let [flags] = bytes(parts.next()?)?;
        let more = parts.next().is_some();
        if version == 0xff || (version == 0 && more) || trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

/// Exactly `N` bytes in lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_whole = text.len() == 2 * N && text.bytes().all(is_digit);
    let number = is_whole.then(|| u128::from_str_radix(text, 16).ok())??;
    number.to_be_bytes().last_chunk().copied()
}
