//! What a pull is asked for and the credentials it brings.

use std::fmt;

use super::reference::ImageReference;

/// PullImage, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PullRequest {
    /// What to pull; always carries a tag or a digest (Docker pulls *every* tag without one).
    pub reference: ImageReference,
    /// How to prove who asks; none for anonymous.
    pub credentials: Option<Credentials>,
}

/// A credential for a registry, in the form CRI's `AuthConfig` carried it.
///
/// `Debug` shows only whom it is for.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Registry the credential is for.
    pub server_address: String,
    /// OAuth refresh token.
    pub identity_token: String,
    /// Bearer token.
    pub registry_token: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}
