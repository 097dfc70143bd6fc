//! The header by which a caller's span becomes the parent of ours: `traceparent` of W3C's Trace
//! Context, as a kubelet with tracing sends it.

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace all belongs to.
    pub trace: [u8; 16],
    /// The caller's span in it.
    pub span: [u8; 8],
    /// Whether the caller's span is kept; ours are kept with it or not at all.
    pub sampled: bool,
}

impl Parent {
    /// Reads `version-trace-span-flags`; `None` for anything else, which the rules say to ignore.
    /// Versions to come may append more; `ff` never comes.
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

/// Exactly `N` bytes in small hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let pairs = text.as_bytes().chunks_exact(2);
    if pairs.len() != N || !pairs.remainder().is_empty() {
        return None;
    }
    let mut read = [0; N];
    for (byte, pair) in read.iter_mut().zip(pairs) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(read)
}

const fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}
