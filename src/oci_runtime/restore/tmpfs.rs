//! Checks a tmpfs archive of a container checkpoint, before CRIU unpacks the archive with GNU tar. Refuses archives
//! that GNU tar could read differently from this module.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io::{self, Read},
    ops::Range,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType, Header, PaxExtensions};

use super::config::{Config, Device};

/// Refuses devices whose numbers belong to no device of the new container. Returns the paths of all links.
pub(super) fn check(bytes: &[u8], config: &Config) -> Result<BTreeSet<PathBuf>, String> {
    let mut content = MultiGzDecoder::new(bytes).take(LARGEST_ARCHIVE);
    let (mut links, mut names, mut left) = (BTreeSet::new(), Names::default(), LARGEST_EXTENSIONS);
    let mut archive = Archive::new(&mut content);
    for (number, entry) in intact(archive.entries())?.raw(true).enumerate() {
        let mut entry = intact(entry)?;
        check_header(entry.header())?;
        let kind = entry.header().entry_type();
        if EXTENSIONS.contains(&kind) {
            left = left
                .checked_sub(entry.size())
                .ok_or("has names or attributes that are too large in total")?;
            names.add(&mut entry)?;
            continue;
        }
        let own = std::mem::take(&mut names);
        let path = own.path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let path = Path::new(OsStr::from_bytes(&path));
        if kind.is_symlink() || kind.is_hard_link() {
            let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
            links.insert(names.collect());
        }
        if number >= MOST_ENTRIES || links.len() > MOST_LINKS {
            return Err("has too many files or links".to_owned());
        }
        check_device(entry.header(), path, config)?;
    }
    if !intact(is_zero(&mut content))? {
        return Err("has content after the end of the archive".to_owned());
    }
    if content.limit() == 0 { Err("is too large".to_owned()) } else { Ok(links) }
}

fn intact<T>(read: io::Result<T>) -> Result<T, String> {
    read.map_err(|error| format!("is damaged: {error}"))
}

/// Refuses a header that GNU tar may read differently: an unknown format or type, a size that is not octal, a size
/// other than 0 for an entry that cannot have content, or a file whose name ends in a slash.
fn check_header(header: &Header) -> Result<(), String> {
    let is_known_format = [&b"ustar  \0"[..], b"ustar\x0000"].contains(&field(header, MAGIC));
    let kind = header.entry_type();
    let has_content = kind == EntryType::Regular || EXTENSIONS.contains(&kind);
    if !has_content && !WITHOUT_CONTENT.contains(&kind) {
        return Err("has an entry of an unsupported kind".to_owned());
    }
    let size = intact(header.entry_size())?;
    let is_named_directory = kind == EntryType::Regular && header.path_bytes().ends_with(b"/");
    if !is_known_format
        || !is_octal(field(header, SIZE))
        || size != 0 && !has_content
        || is_named_directory
    {
        return Err("has an entry that tar programs could read differently".to_owned());
    }
    Ok(())
}

fn field(header: &Header, place: Range<usize>) -> &[u8] {
    header.as_bytes().get(place).unwrap_or_default()
}

fn is_octal(field: &[u8]) -> bool {
    let is_digit = |byte: &u8| (b'0'..=b'7').contains(byte);
    field
        .split_last()
        .is_some_and(|(end, digits)| b"\0 ".contains(end) && digits.iter().all(is_digit))
}

fn check_device(header: &Header, path: &Path, config: &Config) -> Result<(), String> {
    let kind = header.entry_type();
    if !kind.is_character_special() && !kind.is_block_special() {
        return Ok(());
    }
    let numbers = (header.device_major(), header.device_minor());
    let number = (numbers.0.ok().flatten(), numbers.1.ok().flatten());
    let is_standard = kind.is_character_special()
        && matches!(number, (Some(1), Some(3 | 5 | 7..=9)) | (Some(5), Some(0..=2)));
    // A block device and a character device with the same numbers are different devices.
    let is_own = |own: &Device| {
        number == (Some(own.major), Some(own.minor)) && (own.kind == "b") == kind.is_block_special()
    };
    let is_allowed = is_standard || config.linux.devices.iter().any(is_own);
    if !is_allowed || !is_octal(field(header, MAJOR)) || !is_octal(field(header, MINOR)) {
        let path = path.display();
        return Err(format!(
            "has the device {path}, whose numbers are damaged or belong to no device of the new \
             container"
        ));
    }
    Ok(())
}

/// The name and the link target that extension headers set for the next entry.
#[derive(Debug, Default)]
struct Names {
    path: Option<Vec<u8>>,
    /// Whether the link target is set. The target itself is not kept, because this module follows no links.
    has_target: bool,
    has_pax: bool,
}

impl Names {
    fn add(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), String> {
        let mut bytes = Vec::new();
        intact(entry.read_to_end(&mut bytes))?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XHeader {
            if std::mem::replace(&mut self.has_pax, true) {
                return Err("has an entry with two extended headers".to_owned());
            }
            let mut keys = BTreeSet::new();
            for extension in PaxExtensions::new(&bytes) {
                let extension = intact(extension)?;
                let (key, value) = (extension.key_bytes(), extension.value_bytes());
                if !keys.insert(key.to_vec()) {
                    return Err("has an entry with an attribute that occurs twice".to_owned());
                }
                match key {
                    b"path" => self.name(value)?,
                    b"linkpath" => self.target(value)?,
                    key if PAX.contains(&key) || key.starts_with(b"SCHILY.xattr.") => {}
                    _ => return Err("has an entry with an unsupported attribute".to_owned()),
                }
            }
            return Ok(());
        }
        let name = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        if kind == EntryType::GNULongName { self.name(name) } else { self.target(name) }
    }

    fn name(&mut self, name: &[u8]) -> Result<(), String> {
        match self.path.replace(name.to_vec()) {
            None => check_name(name),
            Some(_) => Err("has an entry with two names".to_owned()),
        }
    }

    fn target(&mut self, name: &[u8]) -> Result<(), String> {
        match std::mem::replace(&mut self.has_target, true) {
            false => check_name(name),
            true => Err("has an entry with two link targets".to_owned()),
        }
    }
}

/// Refuses an empty name, and a name with a NUL, at which GNU tar would end the name.
fn check_name(name: &[u8]) -> Result<(), String> {
    if name.is_empty() || name.contains(&0) {
        return Err("has a name that tar programs could read differently".to_owned());
    }
    Ok(())
}

fn is_zero(rest: &mut impl Read) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = rest.read(&mut buffer)?;
        match buffer.get(..length) {
            None | Some([]) => return Ok(true),
            Some(piece) if piece.iter().any(|byte| *byte != 0) => return Ok(false),
            Some(_) => {}
        }
    }
}

/// An archive must decompress to fewer bytes than this, because a few compressed bytes can become many.
const LARGEST_ARCHIVE: u64 = 256 << 20;
const LARGEST_EXTENSIONS: u64 = 8 << 20;
const MOST_ENTRIES: usize = 100_000;
const MOST_LINKS: usize = 10_000;
const EXTENSIONS: [EntryType; 3] =
    [EntryType::XHeader, EntryType::GNULongName, EntryType::GNULongLink];
const WITHOUT_CONTENT: [EntryType; 6] = [
    EntryType::Directory,
    EntryType::Symlink,
    EntryType::Link,
    EntryType::Char,
    EntryType::Block,
    EntryType::Fifo,
];
const PAX: [&[u8]; 7] = [b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname", b"gname"];
/// Positions of fields in a header.
const SIZE: Range<usize> = 124..136;
const MAGIC: Range<usize> = 257..265;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
