//! Where dockbridge finds credentials, and how it reads the output of credential helpers.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use super::{answered, find, helper, lookup};
use crate::model::image::Credentials;

#[test]
fn credentials_are_found_by_registry() {
    let config = json!({
        "auths": {
            "https://index.docker.io/v1/": {"auth": "bWU6c2VjcmV0"},
            "registry.test:5000": {"auth": "YTpiOmM="},
            "plain.test": {"username": "u", "password": "p"},
            "token.test": {"identitytoken": "t"},
            "helper.test": {},
            "broken.test": {"auth": "%%%"},
        },
        "credsStore": "desktop",
    });
    let config = config.to_string();
    let user = |domain: &str| {
        let found = find(config.as_bytes(), domain)?;
        Some((found.username, found.password, found.identity_token))
    };
    let expected = |user: &str, password: &str, token: &str| {
        Some((user.to_owned(), password.to_owned(), token.to_owned()))
    };
    assert_eq!(user("docker.io"), expected("me", "secret", ""));
    assert_eq!(user("registry.test:5000"), expected("a", "b:c", ""));
    assert_eq!(user("plain.test"), expected("u", "p", ""));
    assert_eq!(user("token.test"), expected("", "", "t"));
    for none in ["helper.test", "broken.test", "registry.test", "test", ""] {
        assert_eq!(user(none), None, "{none}");
    }
    // Programs in Go, such as credential helpers, can write `null` for an empty value.
    let config = json!({
        "auths": {"a.test": null, "b.test": {"auth": "YTpiOmM=", "identitytoken": null}},
        "credHelpers": null, "credsStore": null,
    });
    let config = config.to_string();
    assert_eq!(find(config.as_bytes(), "b.test").unwrap().username, "a");
    assert_eq!(find(config.as_bytes(), "a.test"), None);
    assert_eq!(helper(config.as_bytes(), "b.test"), None);
    assert_eq!(answered(br#"{"Username":null,"Secret":null}"#, "b.test"), None);
    for config in [&b""[..], b"{", b"[]", b"{\"auths\": 3}", b"{}", b"\xff"] {
        assert_eq!(find(config, "docker.io"), None);
    }
}

#[tokio::test]
async fn a_missing_credentials_file_means_anonymous() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config.json");
    assert_eq!(lookup(&path, "docker.io").await, None);
    assert_eq!(lookup(home.path(), "docker.io").await, None, "a directory");
    std::fs::write(&path, r#"{"auths":{"docker.io":{"auth":"bWU6c2VjcmV0"}}}"#).unwrap();
    let found = lookup(&path, "docker.io").await.unwrap();
    assert_eq!((found.username.as_str(), found.password.as_str()), ("me", "secret"));
}

#[test]
fn a_registrys_own_helper_comes_before_the_one_for_all() {
    let config = json!({
        "credsStore": "secretservice",
        "credHelpers": {
            "registry.test:5000": "own",
            "https://index.docker.io/v1/": "hub",
            "none.test": "",
            "evil.test": "../../bin/sh",
        },
    });
    let config = config.to_string();
    let named = |domain: &str| helper(config.as_bytes(), domain);
    assert_eq!(named("registry.test:5000").as_deref(), Some("own"));
    assert_eq!(named("docker.io").as_deref(), Some("hub"));
    assert_eq!(named("other.test").as_deref(), Some("secretservice"));
    assert_eq!((named("none.test"), named("evil.test")), (None, None));
    assert_eq!(helper(b"{}", "docker.io"), None);
    assert_eq!(helper(b"{\"credHelpers\":[]}", "docker.io"), None);
}

#[test]
fn a_helpers_answer_is_a_password_or_a_token() {
    let password = answered(br#"{"ServerURL":"x","Username":"me","Secret":"s"}"#, "r.test");
    let password = password.unwrap();
    let Credentials { username, password, server_address, .. } = password;
    assert_eq!((username.as_str(), password.as_str()), ("me", "s"));
    assert_eq!(server_address, "r.test");
    let token = answered(br#"{"Username":"<token>","Secret":"t"}"#, "r.test").unwrap();
    assert_eq!((token.username.as_str(), token.identity_token.as_str()), ("", "t"));
    for none in [&b""[..], b"{}", b"[]", b"credentials not found in native keychain\n", b"\xff"] {
        assert_eq!(answered(none, "r.test"), None);
    }
}

/// Credential helpers are searched for in `PATH`, which a test cannot change only for itself, so this test
/// uses a missing helper. A missing helper must not hide the credentials in the configuration itself.
#[tokio::test]
async fn a_missing_helper_leaves_the_credentials_of_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config.json");
    let config = json!({
        "credsStore": "dockbridge-test-of-a-missing-helper",
        "auths": {"docker.io": {"auth": "bWU6c2VjcmV0"}, "helper.test": {}},
    });
    fs::write(&path, config.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(lookup(&path, "docker.io").await.unwrap().username, "me");
    assert_eq!(lookup(&path, "helper.test").await, None);
}
