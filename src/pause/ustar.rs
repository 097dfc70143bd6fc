//! Writes ustar archives of regular files with short names. An archive of the same files has the same bytes on every
//! host.

use tar::{EntryType, Header};

/// An archive of files with name (at most 99 bytes), mode and content, owned by root and dated 1970.
pub(super) fn archive<'a>(files: impl IntoIterator<Item = (&'a str, u32, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, mode, content) in files {
        let mut header = Header::new_ustar();
        // `set_path` cannot fail for a short relative path without `..`.
        let _ = header.set_path(name);
        header.set_entry_type(EntryType::Regular);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        header.set_cksum();
        // Other tar programs write the checksum in this format: six octal digits, NUL, space.
        let sum = header.cksum().unwrap_or_default();
        header.as_old_mut().cksum.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize((bytes.len() + 2 * BLOCK).next_multiple_of(RECORD), 0);
    bytes
}

/// Each entry of an archive starts at a multiple of this many bytes.
const BLOCK: usize = 512;
/// The length of an archive is a multiple of this many bytes.
const RECORD: usize = 20 * BLOCK;
