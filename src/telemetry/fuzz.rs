//! Target of `make fuzz` that parses the header `traceparent` of W3C's Trace Context.

use super::trace::parent::Parent;
use crate::fuzz_input::texts;

pub(crate) fn parent(bytes: &[u8]) {
    for text in texts(bytes) {
        if let Some(parent) = Parent::parse(text) {
            let hex =
                |bytes: &[u8]| bytes.iter().fold(String::new(), |s, b| s + &format!("{b:02x}"));
            let (trace, span) = (hex(&parent.trace), hex(&parent.span));
            let written = format!("00-{trace}-{span}-{:02x}", u8::from(parent.sampled));
            assert_eq!(Parent::parse(&written), Some(parent));
        }
    }
}
