//! Tests of valid and invalid seccomp profiles.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::check;

#[test]
fn valid_seccomp_profiles_are_accepted() {
    let rule = json!({"names": ["chmod", "fchmod"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1});
    let argument =
        json!({"index": 5, "value": u64::MAX, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ"});
    for profile in [
        json!({"defaultAction": "SCMP_ACT_ALLOW"}),
        json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}),
        json!({"defaultAction": "SCMP_ACT_LOG", "syscalls": null}),
        json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [rule]}),
        // A profile in Docker's format.
        json!({"defaultAction": "SCMP_ACT_ERRNO", "architectures": [],
            "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}],
            "syscalls": [{"name": "clone", "action": "SCMP_ACT_ALLOW", "args": [argument, null,
                    {"index": null, "value": null, "valueTwo": null, "op": "SCMP_CMP_EQ"}],
                "comment": "", "includes": {"caps": ["CAP_SYS_ADMIN"]}, "excludes": {}}]}),
        json!({"defaultAction": "SCMP_ACT_KILL_PROCESS", "something new": {"of": [1, "kind"]},
            "syscalls": [{"names": ["a"], "action": "SCMP_ACT_NOTIFY", "args": null, "new": 1}]}),
    ] {
        assert_eq!(check(&profile.to_string()), Ok(()), "{profile}");
    }
}

#[test]
fn invalid_seccomp_profiles_are_refused_with_a_reason() {
    let with =
        |calls: Value| json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls}).to_string();
    let call = |name: &str, names: &[&str], action: &str| {
        with(json!([{"name": name, "names": names, "action": action}]))
    };
    let argument = |index: i64, op: &str| {
        let args = json!([{"index": index, "value": 1, "op": op}]);
        with(json!([{"name": "a", "action": "SCMP_ACT_ALLOW", "args": args}]))
    };
    for (text, expected) in [
        (String::new(), "EOF"),
        ("unconfined".to_owned(), "expected"),
        (r#"["SCMP_ACT_ALLOW",null,null,null]"#.to_owned(), "sequence"),
        ("{}".to_owned(), "defaultAction"),
        (r#"{"defaultAction":""}"#.to_owned(), "defaultAction"),
        (r#"{"defaultAction":"allow"}"#.to_owned(), "\"allow\" is not one of SCMP_ACT_ALLOW"),
        (r#"{"defaultAction":"SCMP_ACT_ALLOW"} {}"#.to_owned(), "trailing"),
        (with(json!({})), "sequence"),
        (with(json!([{"name": "a"}])), "action"),
        (call("a", &[], "SCMP_ACT_BRIBE"), "syscalls[0]: action"),
        (call("a", &["b"], "SCMP_ACT_ALLOW"), "both name and names"),
        (call("", &[], "SCMP_ACT_ALLOW"), "no system call"),
        (call("", &["a", ""], "SCMP_ACT_ALLOW"), "the name of a system call is empty"),
        (argument(6, "SCMP_CMP_EQ"), "at most 5: 6"),
        (argument(-1, "SCMP_CMP_EQ"), "-1"),
        (argument(0, "=="), "op \"==\""),
        (
            json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["a"], "archMap": [{}]})
                .to_string(),
            "both architectures and archMap",
        ),
    ] {
        let reason = check(&text).unwrap_err();
        assert!(reason.contains(expected), "{text}: {reason}");
    }
}

proptest! {
    /// For any text, the check succeeds or fails with a short reason. It never panics.
    #[test]
    fn any_text_is_judged_with_a_short_reason(text in ".{0,200}", action in ".{0,300}") {
        let profile = json!({"defaultAction": action, "syscalls": [{"names": [text]}]}).to_string();
        for text in [text.as_str(), profile.as_str(), profile.trim_end_matches('}')] {
            if let Err(reason) = check(text) {
                prop_assert!(reason.len() < 1000);
            }
        }
    }
}
