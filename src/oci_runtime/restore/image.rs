//! CRIU's usual format of images: one or two magic numbers, and then entries, each a length and a message.

use bytes::Buf;
use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

/// An image, whose entries are still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    magic: Vec<u8>,
    pub(super) entries: Vec<Vec<u8>>,
}

impl Image {
    /// Splits an image into its entries. Fails if the image is truncated or has too many entries.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (magic, mut rest) =
            bytes.split_at_checked(if has_two(bytes) { 8 } else { 4 }).ok_or("it is truncated")?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            if entries.len() >= MOST_ENTRIES {
                return Err("the CRIU image has too many entries".to_owned());
            }
            let (entry, after) = split_entry(rest)?;
            entries.push(entry.to_vec());
            rest = after;
        }
        Ok(Self { magic: magic.to_vec(), entries })
    }

    /// Decodes the first entry of an image, which may have other content after the entry.
    pub(super) fn first<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
        let start = if has_two(bytes) { 8 } else { 4 };
        decoded(split_entry(bytes.get(start..).unwrap_or_default())?.0)
    }

    /// An image that has a single entry. `magic` is the number of the image's type.
    pub(super) fn new(magic: u32, entry: &impl Message) -> Self {
        let magic = [COMMON[0].to_le_bytes(), magic.to_le_bytes()].concat();
        Self { magic, entries: vec![entry.encode_to_vec()] }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.clone();
        for entry in &self.entries {
            bytes.extend(u32::try_from(entry.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(entry);
        }
        bytes
    }
}

/// Splits off the first entry, whose length precedes it.
fn split_entry(bytes: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (length, rest) = bytes.split_first_chunk().ok_or("it is truncated")?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    rest.split_at_checked(length).ok_or("it is truncated")
}

fn has_two(bytes: &[u8]) -> bool {
    COMMON.iter().any(|magic| bytes.starts_with(&magic.to_le_bytes()))
}

pub(super) fn decoded<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(bytes).map_err(|error| error.to_string())
}

/// The encoded `message` with the fields replaced that `changes` sets. All other fields stay, also unknown fields.
pub(super) fn merged(message: &[u8], changes: &impl Message) -> Result<Vec<u8>, String> {
    let changes = changes.encode_to_vec();
    let mut replaced = Vec::new();
    fields(&changes, |tag, _| replaced.push(tag))?;
    let mut kept = Vec::with_capacity(message.len() + changes.len());
    fields(message, |tag, field| {
        if !replaced.contains(&tag) {
            kept.extend_from_slice(field);
        }
    })?;
    kept.extend(changes);
    Ok(kept)
}

/// The embedded message with this tag, still encoded.
pub(super) fn part(message: &[u8], wanted: u32) -> Result<Vec<u8>, String> {
    let mut part = Vec::new();
    fields(message, |tag, mut field| {
        let is_part = matches!(decode_key(&mut field), Ok((_, WireType::LengthDelimited)));
        if tag == wanted && is_part && decode_varint(&mut field).is_ok() {
            // Decoders merge an embedded message that occurs twice, which is the same as decoding the joined bytes.
            part.extend_from_slice(field);
        }
    })?;
    Ok(part)
}

fn fields(mut rest: &[u8], mut visit: impl FnMut(u32, &[u8])) -> Result<(), String> {
    while rest.has_remaining() {
        let whole = rest;
        let (tag, kind) = decode_key(&mut rest).map_err(|error| error.to_string())?;
        skip_field(kind, tag, &mut rest, DecodeContext::default())
            .map_err(|error| error.to_string())?;
        visit(tag, whole.get(..whole.len() - rest.len()).unwrap_or_default());
    }
    Ok(())
}

const MOST_ENTRIES: usize = 100_000;
/// Magic numbers that precede the number of the image's type. `inventory.img` has none of them.
const COMMON: [u32; 2] = [0x5456_4319, 0x5510_5940];

#[cfg(test)]
mod tests {
    use super::{
        super::messages::{HostNames, Limit, Task, Thread},
        *,
    };

    #[test]
    fn changes_replace_fields_and_keep_what_is_not_known() {
        let thread = Thread { nice: Some(-5), seccomp_mode: Some(0), ..Thread::default() };
        let mut bytes = thread.encode_to_vec();
        // Field 13, which `Thread` does not have, is the thread's name.
        bytes.extend([13 << 3 | 2, 2, b's', b'h']);
        let changes = Thread { seccomp_mode: Some(2), cgroups: Some(1), ..Thread::default() };
        let merged = merged(&bytes, &changes).unwrap();
        let wanted = Thread { nice: Some(-5), ..changes };
        assert_eq!(decoded::<Thread>(&merged).unwrap(), wanted);
        assert!(merged.windows(2).any(|two| two == b"sh"), "{merged:?}");
        let limits = Some(super::super::messages::Limits { all: vec![Limit { soft: 1, hard: 2 }] });
        let before = Task { limits, ..Task::default() };
        let twice = super::merged(&before.encode_to_vec(), &before).unwrap();
        assert_eq!(decoded::<Task>(&twice).unwrap(), before);
    }

    #[test]
    fn an_image_is_split_and_joined() {
        let many = [&[0; 4][..], &vec![0; 4 * (MOST_ENTRIES + 1)]].concat();
        assert!(Image::read(&many).unwrap_err().contains("too many"));
        let image = Image::new(7, &HostNames { host: "pod".to_owned() });
        assert_eq!(Image::read(&image.bytes()).unwrap(), image);
        let bytes = image.bytes();
        for length in [0, 3, 7, 9, bytes.len() - 1] {
            Image::read(&bytes[..length]).unwrap_err();
        }
        let inventory = [0x16, 0x31, 0x31, 0x58, 0, 0, 0, 0];
        assert_eq!(Image::read(&inventory).unwrap().entries, [Vec::<u8>::new()]);
        merged(&[0xff], &HostNames::default()).unwrap_err();
    }
}
