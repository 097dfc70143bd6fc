//! Finds the credentials for pulling the pause image: those of `docker login`, in a Docker client configuration or in
//! its credential helper. A RunPodSandbox call contains no credentials.

use std::{collections::BTreeMap, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use tracing::warn;

use crate::{
    concurrency::blocking::blocking,
    error::chain,
    host::{
        file::read_if_present,
        process::{ProcessExit, Program, run},
    },
    model::{image::Credentials, reference::registry_of},
    wire::nullable::nullable,
};

/// The credentials for a registry from the configuration at `path`. An unreadable file counts as missing.
pub(super) async fn lookup(path: &Path, domain: &str) -> Option<Credentials> {
    let place = path.to_owned();
    let bytes = match blocking(move || read_if_present(&place, LONGEST_CONFIG)).await {
        Ok(bytes) => bytes?,
        Err(refused) => {
            let error = refused.source;
            warn!(path = %path.display(), %error, "cannot read the registry credentials; pulling the pause image without them");
            return None;
        }
    };
    if let Some(helper) = helper(&bytes, domain)
        && let Some(found) = ask(path, &helper, domain).await
    {
        return Some(found);
    }
    find(&bytes, domain)
}

/// The credentials for a registry in the text of a Docker client configuration.
pub(super) fn find(config: &[u8], domain: &str) -> Option<Credentials> {
    let config: ClientConfig = serde_json::from_slice(config).ok()?;
    let mut entries = config.auths.into_iter();
    let (server_address, entry) = entries.find(|(key, _)| registry_of(key) == domain)?;
    let entry = entry.unwrap_or_default();
    let (username, password) = entry.user()?;
    let RegistryAuth { identity_token, registry_token, .. } = entry;
    Some(Credentials { username, password, server_address, identity_token, registry_token })
}

/// The credential helper for a registry in a Docker client configuration: the registry's own helper, otherwise the
/// helper for all registries. Ignores a helper whose name has a `/` or another special character.
pub(super) fn helper(config: &[u8], domain: &str) -> Option<String> {
    let config: ClientConfig = serde_json::from_slice(config).ok()?;
    let own = config.cred_helpers.into_iter().find(|(key, _)| registry_of(key) == domain);
    let name = own.map_or(config.creds_store, |(_, name)| name.unwrap_or_default());
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// The credentials in the output of a credential helper.
pub(super) fn answered(stdout: &[u8], address: &str) -> Option<Credentials> {
    let answer: Answer = serde_json::from_slice(stdout).ok()?;
    let server_address = address.to_owned();
    if answer.username == TOKEN_USER {
        let identity_token = answer.secret;
        return Some(Credentials { identity_token, server_address, ..Credentials::default() });
    }
    let Answer { username, secret: password } = answer;
    let proves = !username.is_empty();
    proves.then(|| Credentials { username, password, server_address, ..Credentials::default() })
}

/// Calls a credential helper with `get` and the registry's address; its output is JSON.
async fn ask(config: &Path, helper: &str, domain: &str) -> Option<Credentials> {
    let program = format!("docker-credential-{helper}");
    // Docker's client stores the credentials for Docker Hub under the address `https://index.docker.io/v1/`.
    let address = if domain == "docker.io" { "https://index.docker.io/v1/" } else { domain };
    let home = config.parent().unwrap_or(config).to_string_lossy();
    let job = Program {
        executable: Path::new(&program),
        arguments: &["get"],
        environment: &[("DOCKER_CONFIG", &home)],
        input: address.as_bytes(),
        time_limit: HELPER_TIMEOUT,
        output_limit: LONGEST_ANSWER,
    };
    let error = match run(job).await {
        Ok(done) if done.exit == ProcessExit::Code(0) => return answered(&done.stdout, address),
        // The log shows only the exit code or signal, because the helper's output may contain a secret.
        Ok(done) => done.exit.to_string(),
        Err(error) => chain(&error),
    };
    warn!(
        program,
        registry = domain,
        error,
        "the credential helper returned no credentials for the pause image; using credentials from the --registry-config file, if any"
    );
    None
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientConfig {
    #[serde(deserialize_with = "nullable")]
    auths: BTreeMap<String, Option<RegistryAuth>>,
    #[serde(deserialize_with = "nullable")]
    cred_helpers: BTreeMap<String, Option<String>>,
    #[serde(deserialize_with = "nullable")]
    creds_store: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RegistryAuth {
    #[serde(deserialize_with = "nullable")]
    auth: String,
    #[serde(deserialize_with = "nullable")]
    username: String,
    #[serde(deserialize_with = "nullable")]
    password: String,
    #[serde(rename = "identitytoken", deserialize_with = "nullable")]
    identity_token: String,
    #[serde(rename = "registrytoken", deserialize_with = "nullable")]
    registry_token: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Answer {
    #[serde(deserialize_with = "nullable")]
    username: String,
    #[serde(deserialize_with = "nullable")]
    secret: String,
}

impl RegistryAuth {
    /// The user name and password; usually `auth` has both in base64. None without a user name or token.
    fn user(&self) -> Option<(String, String)> {
        let packed = STANDARD.decode(self.auth.trim()).ok();
        let packed = packed.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = packed.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.unwrap_or((&self.username, &self.password));
        let token = !self.identity_token.is_empty() || !self.registry_token.is_empty();
        let proves = token || !username.is_empty();
        // Old Docker clients pad the password with zero bytes.
        proves.then(|| (username.to_owned(), password.trim_end_matches('\0').to_owned()))
    }
}

/// The user name under which credential helpers store identity tokens.
const TOKEN_USER: &str = "<token>";
/// The size limit of a Docker client's configuration in bytes. Real files are much smaller.
const LONGEST_CONFIG: u64 = 1 << 20;
/// The size limit of a credential helper's output in bytes. An output with a token is much smaller.
const LONGEST_ANSWER: usize = 1 << 20;
/// How long a credential helper may take. The helpers of cloud registries use the network.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
