//! Image references: parsed and normalised as the engine does it, so that names can be compared
//! and so that nothing but a reference ever reaches an engine path.

use std::fmt;

use thiserror::Error;

/// A text that is no image reference.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not an image reference: {text:?}: {reason}")]
pub struct InvalidReference {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A normalised image reference: `domain/path[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageReference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Registry, e.g. `docker.io`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Repository without the registry, e.g. `library/busybox`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Tag, if one is stated.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Digest with its algorithm, if one is stated.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}
