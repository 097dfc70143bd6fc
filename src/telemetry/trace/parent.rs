//! The header `traceparent` of W3C's Trace Context, which names the caller's span (kubelet with tracing).

/// The caller's span, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace to which the caller's span and dockbridge's span belong.
    pub trace: [u8; 16],
    pub span: [u8; 8],
    /// Whether the caller's tracing keeps the caller's span: if not, dockbridge keeps no spans of this call.
    pub sampled: bool,
}

impl Parent {
    /// Parses `version-trace-span-flags`. Returns `None` for any other text, and for a trace or span of zeros, which
    /// W3C's rules say to ignore. Later versions may append more fields. Version `ff` is not valid.
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

/// Parses exactly `N` bytes, written as lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_whole = text.len() == 2 * N && text.bytes().all(is_digit);
    let number = is_whole.then(|| u128::from_str_radix(text, 16).ok())??;
    number.to_be_bytes().last_chunk().copied()
}
