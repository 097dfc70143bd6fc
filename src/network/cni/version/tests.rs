//! Tests the order of CNI versions, the refusal of texts that are not supported versions, and the choice of the
//! versions that a plugin and dockbridge support.

use super::*;

#[test]
fn orders_by_number() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    assert!(version("0.3.1") < version("0.4.0"));
    assert_eq!(version("0.1.0"), Version::OLDEST);
    assert_eq!(Version::HAS_PREVIOUS_ON_DEL.to_string(), "0.4.0");
    assert_eq!(Version::HAS_STATUS.to_string(), "1.1.0");
}

#[test]
fn refuses_what_is_no_supported_version() {
    for text in ["", "1", "1.0", "1.0.0.0", "1.0.x", "-1.0.0", "1.0.0-dev", "0.10.0", "1.2.0"] {
        assert_eq!(text.parse::<Version>(), Err(()), "{text}");
    }
}

#[test]
fn keeps_the_versions_that_both_sides_support() {
    let reply: VersionReply =
        serde_json::from_str(r#"{"supportedVersions":["0.4.0","7.0.0","what","1.0.0"]}"#).unwrap();
    assert_eq!(listed(&reply.known()), "0.4.0, 1.0.0");
    for silent in ["{}", r#"{"supportedVersions":null}"#] {
        let silent: VersionReply = serde_json::from_str(silent).unwrap();
        assert_eq!(listed(&silent.known()), "none");
    }
}
