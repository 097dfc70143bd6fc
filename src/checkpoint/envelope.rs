//! The envelope of every file: `{"version":1,"checksum":"<sha256>","body":{…}}`.
//!
//! The checksum covers the body's text exactly as it is in the file. So any changed, missing or added byte
//! is found, and the way an encoder formats JSON does not matter.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The version written into new files. This and every lower version can be read.
pub const VERSION: u32 = 1;

/// Why a file cannot be trusted.
#[derive(Debug, Error)]
pub enum Untrusted {
    /// The file is empty, as often after a power loss.
    #[error("the file is empty")]
    Empty,
    /// The file is not an envelope: it was cut short or overwritten, or another program wrote it.
    #[error("the file is not a checkpoint: {0}")]
    Envelope(#[source] serde_json::Error),
    #[error("version {found} is newer than {VERSION}, the newest known here")]
    Version { found: u32 },
    #[error("the checksum does not match the body")]
    Checksum,
    /// The checksum is right, but the body has another form.
    #[error("the body cannot be parsed: {0}")]
    Body(#[source] serde_json::Error),
    #[error("the file holds the checkpoint of {found}")]
    Misnamed { found: String },
    #[error("the file's name is not a sandbox id")]
    Name,
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
}

/// The content of the file for a body.
///
/// # Errors
/// The body has no JSON form (a map with keys that are not strings).
pub fn seal<T: Serialize>(body: &T) -> Result<Vec<u8>, serde_json::Error> {
    let body = serde_json::value::to_raw_value(body)?;
    let checksum = checksum(body.get());
    let mut bytes = serde_json::to_vec(&Envelope { version: VERSION, checksum, body })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The body of a file.
///
/// # Errors
/// Any reason not to trust the file.
pub fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Untrusted> {
    if bytes.is_empty() {
        return Err(Untrusted::Empty);
    }
    // The version is parsed first, because a later version may have another envelope.
    let VersionOnly { version } = serde_json::from_slice(bytes).map_err(Untrusted::Envelope)?;
    if version == 0 || version > VERSION {
        return Err(Untrusted::Version { found: version });
    }
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(Untrusted::Envelope)?;
    if checksum(envelope.body.get()) != envelope.checksum {
        return Err(Untrusted::Checksum);
    }
    serde_json::from_str(envelope.body.get()).map_err(Untrusted::Body)
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    version: u32,
    checksum: String,
    body: Box<RawValue>,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

fn checksum(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}
