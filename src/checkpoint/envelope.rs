//! The envelope of the files that [`crate::checkpoint`] stores: `{"version":1,"checksum":"<sha256>","body":{…}}`.
//!
//! The checksum covers the body's text exactly as it is in the file. So the checksum detects any change of
//! the body, and does not depend on how a JSON encoder formats it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The version written into new files. dockbridge reads the versions from 1 to this one.
pub const VERSION: u32 = 1;

/// Returns the content of a stored file for `body`.
///
/// # Errors
/// `body` cannot be written as JSON, for example because a map has keys that are not strings.
pub fn seal<T: Serialize>(body: &T) -> Result<Vec<u8>, serde_json::Error> {
    let body = serde_json::value::to_raw_value(body)?;
    let checksum = checksum(body.get());
    let mut bytes = serde_json::to_vec(&Envelope { version: VERSION, checksum, body })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Checks the content of a stored file and returns its body.
///
/// # Errors
/// Why the content cannot be used.
pub fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if bytes.is_empty() {
        return Err(EMPTY.to_owned());
    }
    let damaged = |error| format!("the envelope of the file cannot be parsed: {error}");
    // The version is parsed first, because a later version may have another envelope.
    let VersionOnly { version } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version == 0 || version > VERSION {
        return Err(format!(
            "the file has version {version}, and this dockbridge reads versions 1 to {VERSION}: a later version needs a later dockbridge"
        ));
    }
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(damaged)?;
    if checksum(envelope.body.get()) != envelope.checksum {
        return Err("the checksum does not match the body".to_owned());
    }
    let body = serde_json::from_str(envelope.body.get());
    body.map_err(|error| format!("the body cannot be parsed: {error}"))
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

/// The error for a file without content, which a power loss may leave.
pub(super) const EMPTY: &str = "the file is empty";
