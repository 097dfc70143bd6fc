//! A target of `make fuzz`: the bytes that a client sends on a connection.

use super::authority_filter::AuthorityFilter;
use crate::fuzz_input::portions;

/// However the bytes are split into reads, the filter overwrites the same bytes.
pub(crate) fn authorities(bytes: &[u8]) {
    let mut whole = bytes.to_vec();
    AuthorityFilter::default().overwrite(&mut whole);
    let mut filter = AuthorityFilter::default();
    let cut = portions(bytes).into_iter().flat_map(|piece| {
        let mut piece = piece.to_vec();
        filter.overwrite(&mut piece);
        piece
    });
    assert_eq!(cut.collect::<Vec<_>>(), whole);
}
