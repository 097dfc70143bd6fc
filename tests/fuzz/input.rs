//! Splits inputs for fuzz targets, which pass the parts to a decoder.

/// The input in pieces, as a client or server could send it. The content of the input determines where it is split.
pub(crate) fn portions(bytes: &[u8]) -> Vec<&[u8]> {
    let mut state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let longest = if state >> 62 == 0 { bytes.len() } else { 12 };
        let length = usize::try_from(state >> 33).unwrap_or(0) % longest.max(1) + 1;
        let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// The texts of an input, which are separated by NULs.
pub(crate) fn texts(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|byte| *byte == 0).map(|part| str::from_utf8(part).unwrap_or_default())
}
