//! Credentials for the pause image, which no caller brings: those a `docker login` left in a
//! Docker client configuration. Credential helpers are programs and are not run.

use std::{collections::BTreeMap, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use tracing::warn;

use crate::{host::file::read_if_present, model::image::Credentials};

/// The credentials for a registry in the configuration at `path`. What cannot be read is as good
/// as absent: the pull is then anonymous, and its failure says what is missing.
pub(super) async fn lookup(path: &Path, domain: &str) -> Option<Credentials> {
    let place = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_if_present(&place, LONGEST_CONFIG)).await;
    match read {
        Ok(Ok(bytes)) => find(&bytes?, domain),
        Ok(Err(refused)) => {
            let error = refused.source;
            warn!(path = %path.display(), %error, "cannot read the registry credentials");
            None
        }
        Err(_) => None,
    }
}

/// The credentials for a registry in a configuration's text.
pub(super) fn find(config: &[u8], domain: &str) -> Option<Credentials> {
    let config: ClientConfig = serde_json::from_slice(config).ok()?;
    let (address, entry) = config.auths.into_iter().find(|(key, _)| domain_of(key) == domain)?;
    let (username, password) = entry.user()?;
    Some(Credentials {
        username,
        password,
        server_address: address,
        identity_token: entry.identity_token,
        registry_token: entry.registry_token,
    })
}

/// `config.json` of the Docker client.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ClientConfig {
    auths: BTreeMap<String, Entry>,
}

/// What it knows of a registry.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    #[serde(rename = "identitytoken")]
    identity_token: String,
    #[serde(rename = "registrytoken")]
    registry_token: String,
}

impl Entry {
    /// User name and password, which are usually packed into `auth` as base64 of `user:password`;
    /// none when the entry proves nothing.
    fn user(&self) -> Option<(String, String)> {
        let packed = STANDARD.decode(self.auth.trim()).ok();
        let packed = packed.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = packed.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.unwrap_or((&self.username, &self.password));
        let token = !self.identity_token.is_empty() || !self.registry_token.is_empty();
        let proves = token || !username.is_empty();
        // Old clients fill the password up with zero bytes.
        proves.then(|| (username.to_owned(), password.trim_end_matches('\0').to_owned()))
    }
}

/// The registry a key is for. Keys are host names, or addresses as `https://host/v1/`; the
/// default registry goes by its index's name.
fn domain_of(key: &str) -> &str {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    match key.split('/').next().unwrap_or(key) {
        "index.docker.io" => "docker.io",
        domain => domain,
    }
}

/// Far more than any client writes.
const LONGEST_CONFIG: u64 = 1 << 20;
