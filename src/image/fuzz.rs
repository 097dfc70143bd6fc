//! Entry points for `make fuzz`: a Docker client's configuration, and the output of a credential helper.

use super::credentials::{answered, find, helper};

pub(crate) fn credentials(bytes: &[u8]) {
    for domain in ["docker.io", "registry.example:5000"] {
        if let Some(name) = helper(bytes, domain) {
            assert!(!name.is_empty() && !name.contains(['/', '\0', ' ']));
        }
        if let Some(found) = find(bytes, domain) {
            let proves = [&found.username, &found.identity_token, &found.registry_token];
            assert!(proves.iter().any(|text| !text.is_empty()));
            assert!(!found.password.ends_with('\0'));
        }
        if let Some(found) = answered(bytes, domain) {
            assert_eq!(found.server_address, domain);
        }
    }
}
