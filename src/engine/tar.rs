//! Reads the content of a tar archive's first entry, which is enough for an answer about one file.

/// The bytes of the first file in an archive. Skips entries that only describe the next one (long
/// names, times, attributes).
///
/// # Errors
/// The error in the archive.
pub(super) fn first_file(archive: &[u8]) -> Result<&[u8], &'static str> {
    let mut rest = archive;
    loop {
        let (header, behind) = rest.split_at_checked(BLOCK).ok_or(CUT)?;
        check(header)?;
        let size = number(header.get(SIZE).unwrap_or_default()).ok_or("a size is not a number")?;
        match header.get(KIND) {
            Some(b'0' | 0) => return behind.get(..size).ok_or(CUT),
            // Entries of pax, for the next entry or for all, and long names as GNU tar writes them.
            Some(b'x' | b'g' | b'L' | b'K') => {
                let padded = size.checked_next_multiple_of(BLOCK).ok_or(CUT)?;
                rest = behind.get(padded..).ok_or(CUT)?;
            }
            _ => return Err("the archive does not begin with a plain file"),
        }
    }
}

/// The checksum is the sum of the header's bytes, with its own field counted as spaces.
fn check(header: &[u8]) -> Result<(), &'static str> {
    let own = header.get(CHECKSUM).unwrap_or_default();
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>();
    let wanted = sum(header) + own.len() * usize::from(b' ') - sum(own);
    if number(own) == Some(wanted) { Ok(()) } else { Err("a header's checksum is wrong") }
}

/// A number in octal digits, with spaces or zeros around it.
fn number(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    usize::from_str_radix(text, 8).ok()
}

const CUT: &str = "the archive is cut short";
/// Everything in an archive starts at a multiple of this many bytes.
const BLOCK: usize = 512;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
