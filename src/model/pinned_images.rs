//! Images that kubelet's garbage collection must not remove, selected by name or label.

use super::{record::ImageRecord, reference::ImageReference};

/// A pattern for image names: a full name (`docker.io/library/busybox:1`) or Docker's short form. `*` matches any
/// characters, also `/`. A pattern without a tag matches all tags of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

/// A label pattern, `key` or `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPattern {
    key: String,
    value: Option<String>,
}

/// The patterns of pinned images that the operator has configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedImages {
    pub names: Vec<NamePattern>,
    pub labels: Vec<LabelPattern>,
}

/// Which images kubelet may remove to free disk space, unless they are pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectImages {
    /// kubelet may remove every image that is not pinned and that no container uses.
    #[default]
    All,
    /// kubelet may remove only images that PullImage added and whose tags all come from PullImage: other images might
    /// not be in a registry.
    Pulled,
}

impl PinnedImages {
    /// Whether one of the patterns matches the image.
    pub fn matches(&self, image: &ImageRecord) -> bool {
        self.labels.iter().any(|label| label.matches(image))
            || self.names.iter().any(|name| name.matches(image))
    }
}

impl NamePattern {
    /// None if the pattern is empty, too long, or has a character that is neither `*` nor possible in an image name.
    pub fn parse(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@*[]".contains(&b);
        let valid = !text.is_empty() && text.len() <= MAX_PATTERN && text.bytes().all(known);
        valid.then(|| Self(text.to_owned()))
    }

    /// Whether one of the image's names matches the pattern.
    pub fn matches(&self, image: &ImageRecord) -> bool {
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        names
            .filter_map(|name| ImageReference::parse(name).ok())
            .any(|name| self.matches_name(&name))
    }

    fn matches_name(&self, name: &ImageReference) -> bool {
        let repository = name.repository();
        let whole = name.to_string();
        let short = |text: &str| {
            let text = text.strip_prefix(DEFAULT_DOMAIN)?;
            Some(text.strip_prefix(LIBRARY).unwrap_or(text).to_owned())
        };
        [short(&repository), short(&whole), Some(repository), Some(whole)]
            .iter()
            .flatten()
            .any(|text| glob_matches(&self.0, text))
    }
}

impl LabelPattern {
    /// Parses `key` or `key=value`. None if the key is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
            None => (text.trim(), None),
        };
        (!key.is_empty()).then(|| Self { key: key.to_owned(), value })
    }

    /// Whether the image has the label.
    pub fn matches(&self, image: &ImageRecord) -> bool {
        let found = image.labels.get(&self.key);
        found.is_some_and(|found| self.value.as_ref().is_none_or(|value| value == found))
    }
}

/// Tries only the first occurrence of a part between two stars, because `*` matches anything.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// Docker omits the domain `docker.io/` from the names of images on its default registry.
const DEFAULT_DOMAIN: &str = "docker.io/";
/// Docker omits the prefix `library/` from the names of official images.
const LIBRARY: &str = "library/";
/// The longest pattern, in bytes: longer than any image name with a digest, with room for stars.
const MAX_PATTERN: usize = 1024;

#[cfg(test)]
mod tests;
