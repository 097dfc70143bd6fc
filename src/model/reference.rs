//! Parses and normalises image references as the engine does, so that they can be compared.
//!
//! Grammar: `[domain/]path[:tag][@algorithm:hex]`. The part before the first slash is a domain if it contains `.`, `:`
//! or an upper-case letter, or is `localhost`. A name without a domain is on the default registry. On the default
//! registry, a path without a slash gets the prefix `library/`.

use std::{borrow::Cow, fmt};

use thiserror::Error;

#[cfg(test)]
mod tests;

/// The error for a text that is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not an image reference: {text:?}: {reason}")]
pub struct InvalidReference {
    pub text: String,
    pub reason: &'static str,
}

/// Removes credentials from an image name before it is printed: some users write `user:password@` before the registry,
/// as in a URL. A valid image name has an `@` only before its digest.
pub fn printable(name: &str) -> Cow<'_, str> {
    let (rest, digest) = match name.rsplit_once('@') {
        Some((rest, digest)) if looks_like_digest(digest) => (rest, Some(digest)),
        _ => (name, None),
    };
    match (rest.rsplit_once('@'), digest) {
        (None, _) => Cow::Borrowed(name),
        (Some((_, place)), None) => Cow::Borrowed(place),
        (Some((_, place)), Some(digest)) => Cow::Owned(format!("{place}@{digest}")),
    }
}

/// Whether the text looks like a digest, even a malformed one, and not like a registry.
fn looks_like_digest(text: &str) -> bool {
    let (algorithm, hex) = text.split_once(':').unwrap_or_default();
    matches!(algorithm, "sha256" | "sha384" | "sha512") && !hex.contains('/')
}

/// A normalised image reference: `domain/path[:tag][@digest]`. Two spellings of one reference give equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageReference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Parses and normalises a reference.
    ///
    /// # Errors
    /// Fails if the text is not a reference or is an image id ([`names_id`]), which would name another image.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        Self::read(text).map_err(|reason| InvalidReference {
            text: printable(text).chars().take(SHOWN_CHARS).collect(),
            reason,
        })
    }

    /// Adds the tag `latest` if the reference has neither tag nor digest: without either, the engine would
    /// pull every tag of the repository.
    #[must_use]
    pub fn with_default_tag(mut self) -> Self {
        if self.tag.is_none() && self.digest.is_none() {
            self.tag = Some(DEFAULT_TAG.to_owned());
        }
        self
    }

    /// The registry of the image, for example `docker.io`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The tag, if the reference has one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest with its algorithm, if the reference has one.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The full name of the repository with its registry, without tag and digest.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if names_id(text) {
            return Err("the text is an image id");
        }
        let (domain, rest) = split_domain(text);
        let (name, digest) = match rest.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (rest, None),
        };
        // Only a colon after the last slash starts a tag. `check_path` refuses any other colon.
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let official = domain == DEFAULT_DOMAIN && !path.contains('/') && !path.is_empty();
        let path = if official { format!("{LIBRARY}{path}") } else { path.to_owned() };
        check_domain(domain)?;
        check_path(&path)?;
        tag.map_or(Ok(()), check_tag)?;
        digest.map_or(Ok(()), check_digest)?;
        Ok(Self {
            domain: domain.to_owned(),
            path,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)?;
        for (mark, part) in [(':', &self.tag), ('@', &self.digest)] {
            if let Some(part) = part {
                write!(f, "{mark}{part}")?;
            }
        }
        Ok(())
    }
}

/// The registry in the server address of credentials, for example in `host:5000` or `https://host/v1/`. Returns
/// `docker.io` for all three host names of the default registry.
pub fn registry_of(address: &str) -> &str {
    let place = address.split_once("://").map_or(address, |(_, rest)| rest);
    match place.split('/').next().unwrap_or(place) {
        INDEX_DOMAIN | "registry-1.docker.io" => DEFAULT_DOMAIN,
        domain => domain,
    }
}

/// Whether the text is a whole image id: a digest, or 64 lower-case hexadecimal digits.
pub fn names_id(text: &str) -> bool {
    is_digest(text) || (text.len() == 64 && is_lower_hex(text))
}

/// Whether `name` can later refer to another image, as a tag can, unlike a whole id or a digest.
pub fn can_move(name: &str) -> bool {
    let is_digest = |reference: ImageReference| reference.digest().is_some();
    !names_id(name) && !ImageReference::parse(name).is_ok_and(is_digest)
}

/// Whether the text is a digest of a known algorithm and length. `sha256:cafe` is a name with a tag.
pub fn is_digest(text: &str) -> bool {
    check_digest(text).is_ok()
}

/// Splits off the registry. The rest may still need the prefix `library/`.
fn split_domain(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((INDEX_DOMAIN, rest)) => (DEFAULT_DOMAIN, rest),
        Some((first, rest)) if looks_like_domain(first) => (first, rest),
        _ => (DEFAULT_DOMAIN, text),
    }
}

fn looks_like_domain(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

fn check_domain(domain: &str) -> Result<(), &'static str> {
    if domain.len() > MAX_DOMAIN {
        return Err("the registry's name is too long");
    }
    let (host, port) = match domain.rsplit_once(':') {
        // In the address of an IPv6 host without a port, the last colon is inside the brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return Err("the registry's port is not a number");
    }
    let v6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let valid = match v6 {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
        }
        None => host.split('.').all(is_host_label),
    };
    if valid { Ok(()) } else { Err("the registry is neither a host name nor an IP address") }
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("the repository is empty");
    }
    if path.len() > MAX_PATH {
        return Err("the repository is longer than 255 bytes");
    }
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("the repository must be lower case");
    }
    if path.split('/').all(is_path_component) {
        Ok(())
    } else {
        Err(
            "the repository's parts may contain only a-z and 0-9, with '.', '_', '__' or dashes between them",
        )
    }
}

/// Whether the component is lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    component.starts_with(alphanumeric)
        && component.ends_with(alphanumeric)
        && component
            .split(alphanumeric)
            .all(|mark| matches!(mark, "" | "." | "_" | "__") || mark.bytes().all(|b| b == b'-'))
}

fn check_tag(tag: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let begins = tag.bytes().next().is_some_and(word);
    let goes_on = tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'));
    if begins && goes_on && tag.len() <= MAX_TAG { Ok(()) } else { Err("the tag is malformed") }
}

fn check_digest(digest: &str) -> Result<(), &'static str> {
    let (algorithm, hex) = digest.split_once(':').ok_or("the digest has no algorithm")?;
    let digits = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("the digest's algorithm is unknown"),
    };
    if hex.len() == digits && is_lower_hex(hex) { Ok(()) } else { Err("the digest is malformed") }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

const DEFAULT_DOMAIN: &str = "docker.io";
/// An old name of the default registry, which some configuration files still contain.
const INDEX_DOMAIN: &str = "index.docker.io";
const LIBRARY: &str = "library/";
const DEFAULT_TAG: &str = "latest";
/// The longest domain, in bytes: a host name of 253 bytes, a colon, a port, and some room.
const MAX_DOMAIN: usize = 262;
const MAX_PATH: usize = 255;
const MAX_TAG: usize = 128;
/// An error quotes at most this many characters of a refused image name.
const SHOWN_CHARS: usize = 128;
